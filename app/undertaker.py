"""Stops what `flask up` (or a test run) started when that process is gone, databases last.

The starter holds the write end of the undertaker's standard input and tells it, a JSON object a line, what runs. When the
starter ends in any way, kill -9 included, the input closes: the undertaker then stops what is still there. PR_SET_PDEATHSIG
would stop all at once, databases first or last as it falls, is lost when a process changes its user, and is Linux only.
It holds the data folder's lock too, so that nobody can start on a folder that is still being left.

The file is run by its path with `python -I` and imports the standard library alone, so it starts in a few milliseconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


class Undertaker:
    """The starter's side. `lock_fds` are kept open by the undertaker until everything is stopped."""

    def __init__(self, lock_fds: Iterable[int] = ()) -> None:
        self._lock_fds = tuple(lock_fds)
        self._watched: dict[int, dict[str, float]] = {}
        self._remove: list[str] = []
        self._process = self._spawn()

    def watch(self, pid: int, stop_signal: int, rank: int, seconds: float) -> None:
        self._watched[pid] = {"watch": pid, "signal": int(stop_signal), "rank": rank, "seconds": seconds}
        self._tell(self._watched[pid])

    def forget(self, pid: int) -> None:
        if self._watched.pop(pid, None) is not None:
            self._tell({"forget": pid})

    def remove_at_end(self, folder: Path) -> None:
        self._remove.append(str(folder))
        self._tell({"remove": str(folder)})

    def close(self) -> None:
        """Waits until the undertaker has stopped what is left and removed what it was told to remove."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        self._process.wait()

    def _spawn(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-I", __file__],
            stdin=subprocess.PIPE,
            # A line that could not be written must not wait in a buffer.
            bufsize=0,
            cwd="/",
            start_new_session=True,
            pass_fds=self._lock_fds,
        )

    def _tell(self, message: object) -> None:
        try:
            self._write(message)
        except OSError:
            # It was killed: a new one learns everything again.
            self.close()
            self._process = self._spawn()
            for known in (*self._watched.values(), *({"remove": folder} for folder in self._remove)):
                self._write(known)

    def _write(self, message: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")


@dataclass
class Watched:
    """One process to stop. `handle` is a pidfd where the system has them: a number that cannot come to mean another process."""

    pid: int
    stop_signal: int
    rank: int
    seconds: float
    handle: int | None

    def send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self.handle is None:
                os.kill(self.pid, number)
            else:
                signal.pidfd_send_signal(self.handle, number)

    def is_gone(self, wait_seconds: float = 0.0) -> bool:
        if self.handle is not None:
            return bool(select.select([self.handle], [], [], wait_seconds)[0])
        time.sleep(wait_seconds)
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False


def open_handle(pid: int) -> int | None:
    """A pidfd; None where the system has none. Raises ProcessLookupError when the process is gone already."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:
        return None


def stop_all(watched: Iterable[Watched]) -> None:
    """Stops rank after rank; what does not end in its time is killed, with its group."""
    left = sorted(watched, key=lambda one: one.rank)
    for rank in sorted({one.rank for one in left}):
        group = [one for one in left if one.rank == rank]
        for one in group:
            one.send(one.stop_signal)
        deadline = time.monotonic() + max(one.seconds for one in group)
        for one in group:
            while not one.is_gone(0.1) and time.monotonic() < deadline:
                pass
            if not one.is_gone():
                one.send(signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(one.pid, signal.SIGKILL)


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    watched: dict[int, Watched] = {}
    remove: list[str] = []
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "remove" in message:
            remove.append(message["remove"])
        elif "forget" in message:
            gone = watched.pop(message["forget"], None)
            if gone is not None and gone.handle is not None:
                os.close(gone.handle)
        else:
            pid = message["watch"]
            with contextlib.suppress(ProcessLookupError):
                watched[pid] = Watched(pid, message["signal"], message["rank"], message["seconds"], open_handle(pid))
    stop_all(watched.values())
    for folder in remove:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
