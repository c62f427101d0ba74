"""Moves what is due from the scheduled set into the ready stream (C3, C12)."""

from __future__ import annotations

import threading

import redis
import structlog

from app.clock import Clock
from app.process import OncePerSecond
from app.stores import Stores

logger = structlog.get_logger(__name__)

# C3: a job may be added in front of the one it waits for.
LONGEST_PAUSE_SECONDS = 0.02
MOST = 500
ERROR_PAUSE_SECONDS = 0.2


class Promoter:
    """One pass is one script. `epoch_lost` wakes the rebuilder when Redis lost its data."""

    def __init__(self, stores: Stores, clock: Clock, epoch_lost: threading.Event) -> None:
        self._stores = stores
        self._clock = clock
        self._epoch_lost = epoch_lost
        self._may_log = OncePerSecond()

    def run_once(self) -> float:
        """Promotes what is due now. Returns the seconds until it should look again."""
        now = self._clock.now()
        try:
            promoted = self._stores.stream.promote(now, MOST)
        except redis.RedisError as error:
            if self._may_log():
                logger.warning("promote_failed", error=str(error))
            return ERROR_PAUSE_SECONDS
        if promoted.bad:
            logger.error("bad_members", count=promoted.bad)
        if not promoted.epoch.startswith("ready:"):
            self._epoch_lost.set()
        if promoted.moved + promoted.bad == MOST:
            return 0.0
        if promoted.next_at_ms is None:
            return LONGEST_PAUSE_SECONDS
        return min(LONGEST_PAUSE_SECONDS, max(0.0, promoted.next_at_ms / 1000 - self._clock.now().timestamp()))
