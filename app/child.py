"""One child process in a session of its own: started with a log file, asked to stop, and killed with its group when it does not."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from app.undertaker import Undertaker

PROGRAM_RANK = 0
REDIS_RANK = 1
POSTGRES_RANK = 2


class StartFailed(Exception):
    """Something of `flask up` could not start; the message says why and what to do about it."""


class Child:
    """A process that can be started again after it died.

    Each start gets a session of its own, since Ctrl-C reaches a terminal's whole group and the databases must outlive the rest.
    `prepare` runs before each start (stale files). Ranks are stopped in their order: programs, Redis, PostgreSQL.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        log: Path,
        undertaker: Undertaker,
        rank: int = PROGRAM_RANK,
        stop_signal: signal.Signals = signal.SIGTERM,
        stop_seconds: float = 25.0,
        user: int | None = None,
        cwd: Path | None = None,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self.argv = list(argv)
        self.env = dict(env)
        self.log = log
        self.rank = rank
        self.stop_seconds = stop_seconds
        self._undertaker = undertaker
        self._stop_signal = stop_signal
        self._user = user
        self._cwd = cwd
        self._prepare = prepare
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """What the last run ended with; a negative number is a signal, None: it runs, or never did."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Raises StartFailed when the program cannot be run at all."""
        if self._prepare is not None:
            self._prepare()
        try:
            with self.log.open("ab") as log:
                self._process = subprocess.Popen(
                    self.argv,
                    env=self.env,
                    cwd=self._cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    user=self._user,
                    group=self._user,
                    extra_groups=None if self._user is None else [],
                )
        except OSError as error:
            raise StartFailed(f"{self.name} cannot be started ({self.argv[0]}): {error}") from error
        self._undertaker.watch(self._process.pid, self._stop_signal, self.rank, self.stop_seconds)

    def ask_to_stop(self) -> None:
        if self._process is not None and self.is_running:
            self._process.send_signal(self._stop_signal)

    def finish(self, seconds: float | None = None) -> bool:
        """Waits for the end, then kills what is left of the group. True when it ended by itself in time."""
        if self._process is None:
            return True
        in_time = True
        try:
            self._process.wait(self.stop_seconds if seconds is None else seconds)
        except subprocess.TimeoutExpired:
            in_time = False
        self.kill()
        return in_time

    def stop(self) -> bool:
        self.ask_to_stop()
        return self.finish()

    def kill(self) -> None:
        """SIGKILL to the whole group (a dead leader may leave workers that hold its port), and the leader is reaped."""
        if self._process is None:
            return
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        self._process.wait()
        self._undertaker.forget(self._process.pid)

    def log_end(self, lines: int = 12) -> str:
        """The last lines of its log, "" when there is none."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - 8192))
                text = log.read().decode("utf-8", "replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])
