"""`python -m tests.chaos.ahead worker|scheduler`: the program on a host whose wall clock is an hour ahead, and jumps back and forth."""

from __future__ import annotations

import datetime as dt
import runpy
import sys
import threading

import time_machine

from tests.chaos import names

HOUR = dt.timedelta(hours=1)
SECONDS_EACH = 1.5


def jump(stopping: threading.Event) -> None:
    while not stopping.wait(SECONDS_EACH):
        with time_machine.travel(dt.datetime.now(dt.UTC) + HOUR, tick=True):
            stopping.wait(SECONDS_EACH)


if __name__ == "__main__":
    program = sys.argv.pop(1)
    names.install()
    stopping = threading.Event()
    jumper = threading.Thread(target=jump, args=(stopping,), daemon=True)
    jumper.start()
    try:
        runpy.run_module(program, run_name="__main__")
    finally:
        stopping.set()
