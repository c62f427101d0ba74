"""The time between statements: PostgreSQL's last told time plus this host's monotonic clock (C1)."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta


def boottime() -> float:
    """Seconds of a clock that no one sets and that goes on while the host sleeps; CLOCK_MONOTONIC where there is no other."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Clock:
    """Tells PostgreSQL's time. It never runs ahead of it: what it was told is stamped on arrival, not when asked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told_at = datetime(1970, 1, 1, tzinfo=UTC)
        self._heard = 0.0

    def sync(self, told_at: datetime) -> None:
        """Takes PostgreSQL's time as just received."""
        with self._lock:
            self._told_at, self._heard = told_at, boottime()

    def now(self) -> datetime:
        """PostgreSQL's time now. Raises RuntimeError before the first sync: a guess would decide what is due."""
        with self._lock:
            if not self._heard:
                raise RuntimeError("the clock has not been told PostgreSQL's time yet")
            return self._told_at + timedelta(seconds=boottime() - self._heard)
