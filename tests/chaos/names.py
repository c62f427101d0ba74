"""`python -m tests.chaos.names worker`: the program on a host whose resolver knows *.chaos.test, until the file in CHAOS_NAMES says otherwise."""

from __future__ import annotations

import os
import runpy
import socket
import sys
import time
from pathlib import Path
from typing import Any

DOMAIN = ".chaos.test"
# What the file may say; while there is none, names are found.
REFUSED, SILENT = "refused", "silent"
MOST_SECONDS = 10.0
_systems = socket.getaddrinfo


def install() -> None:
    """Takes the place of the system's resolver, which cannot be broken for one program alone."""
    file = Path(os.environ["CHAOS_NAMES"])

    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        if not str(host).endswith(DOMAIN):
            return _systems(host, *arguments, **options)
        deadline = time.monotonic() + MOST_SECONDS
        while _state(file) == SILENT and time.monotonic() < deadline:
            time.sleep(0.05)
        if _state(file):
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return _systems("127.0.0.1", *arguments, **options)

    socket.getaddrinfo = getaddrinfo


def _state(file: Path) -> str:
    try:
        return file.read_text()
    except FileNotFoundError:
        return ""


if __name__ == "__main__":
    program = sys.argv.pop(1)
    install()
    runpy.run_module(program, run_name="__main__")
