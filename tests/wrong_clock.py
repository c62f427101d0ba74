"""`python -m tests.wrong_clock`: a scheduler on a host whose wall clock is set two hours forward and back, again and again."""

from __future__ import annotations

import datetime as dt
import sys
import threading

import time_machine

from scheduler.__main__ import main

TWO_HOURS = dt.timedelta(hours=2)
SECONDS_EACH = 0.7


def set_clock_to_and_fro(stopping: threading.Event) -> None:
    while not stopping.wait(SECONDS_EACH):
        with time_machine.travel(dt.datetime.now(dt.UTC) + TWO_HOURS, tick=True):
            stopping.wait(SECONDS_EACH)


if __name__ == "__main__":
    stopping = threading.Event()
    setter = threading.Thread(target=set_clock_to_and_fro, args=(stopping,))
    setter.start()
    try:
        status = main()
    finally:
        stopping.set()
        setter.join()
    sys.exit(status)
