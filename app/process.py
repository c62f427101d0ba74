"""What worker and scheduler have in common as processes: stopping on a signal, and loops that outlive their errors."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

import structlog

logger = structlog.get_logger(__name__)
ERROR_PAUSE_SECONDS = 1.0


def stop_on_signals() -> threading.Event:
    """An event that SIGTERM or SIGINT sets. What sleeps waits on it."""
    event = threading.Event()

    def handle(number: int, _: FrameType | None) -> None:
        event.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
    return event


class OncePerSecond:
    """Says whether an event may be logged: at most one line a second for the same thing (C15)."""

    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self) -> bool:
        now = time.monotonic()
        if now - self._last < 1.0:
            return False
        self._last = now
        return True


class Loop(threading.Thread):
    """Calls `step` until told to stop. `step` returns the seconds to wait; an exception is logged and waited out."""

    def __init__(self, name: str, step: Callable[[], float], stopping: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self._step = step
        self._stopping = stopping
        self._may_log = OncePerSecond()
        self.turned_over_at = time.monotonic()

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                pause = self._step()
            except Exception:
                if self._may_log():
                    logger.exception("loop_failed", loop=self.name)
                pause = ERROR_PAUSE_SECONDS
            self.turned_over_at = time.monotonic()
            if pause > 0:
                self._stopping.wait(pause)
