"""Keeps what Redis knows of queues in step with PostgreSQL: their limits every second, slots nobody holds every few seconds."""

from __future__ import annotations

from datetime import timedelta

import structlog

from app.clock import Clock, boottime
from app.database import autocommit
from app.queues import reading
from app.stores import Stores

logger = structlog.get_logger(__name__)

INTERVAL_SECONDS = 1.0
SWEEP_SECONDS = 5.0
# A slot this old belongs to a job that runs, or to nobody.
GRACE = timedelta(seconds=10)


class Queues:
    def __init__(self, stores: Stores, clock: Clock) -> None:
        self._stores = stores
        self._clock = clock
        self._swept_at = 0.0

    def run_once(self) -> float:
        """Takes over limits, and sweeps slots now and then. Returns the seconds until the next pass."""
        with autocommit(self._stores.engine) as conn:
            limits = reading.limited(conn)
        self._stores.stream.set_limits(limits, self._clock.now(), are_all=True)
        if boottime() - self._swept_at >= SWEEP_SECONDS:
            self._swept_at = boottime()
            self.sweep()
        return INTERVAL_SECONDS

    def sweep(self) -> int:
        """Gives up slots whose job does not run: its worker died before it said so, or Redis was away then. Returns how many."""
        with autocommit(self._stores.engine) as conn:
            tokens = reading.tokens(conn)
            old = self._stores.stream.slots_before(tokens, self._clock.now() - GRACE)
            running = reading.running_of(conn, [job_id for _, job_id in old]) if old else set()
        given_up = [(token, job_id) for token, job_id in old if job_id not in running]
        self._stores.stream.release(given_up, self._clock.now())
        if given_up:
            logger.warning("slots_swept", count=len(given_up))
        return len(given_up)
