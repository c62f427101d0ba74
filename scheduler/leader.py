"""Leadership: one row in PostgreSQL, renewed by its holder (C21). It only saves work; correctness never rests on it."""

from __future__ import annotations

import threading
from uuid import UUID

import structlog
from sqlalchemy import text

from app.clock import Clock, boottime
from app.database import autocommit
from app.stores import Stores

logger = structlog.get_logger(__name__)

LEASE_SECONDS = 5.0
RENEW_SECONDS = 1.5
# Standbys look this often: with the lease, a killed leader's work is at most 6 s late.
STANDBY_SECONDS = 0.5
# A holder steps down this long before its lease can end, by its own monotonic clock.
MARGIN_SECONDS = 1.0

TAKE = text(f"""
    WITH clock AS MATERIALIZED (SELECT punctual_now() AS now)
    UPDATE leader SET holder = :holder, expires_at = now + make_interval(secs => {LEASE_SECONDS}),
                      acquired_at = CASE WHEN holder = :holder THEN acquired_at ELSE now END
    FROM clock WHERE id = 1 AND (holder IS NULL OR holder = :holder OR expires_at < now)
    RETURNING now
""")
GIVE_UP = text("UPDATE leader SET holder = NULL, expires_at = punctual_now() WHERE id = 1 AND holder = :holder")


class Leadership:
    """Whether this process leads. `step` takes or renews the row."""

    def __init__(self, stores: Stores, clock: Clock, holder: UUID) -> None:
        self._stores = stores
        self._clock = clock
        self._holder = holder
        self._until = 0.0
        self._led = False
        self.taken = threading.Event()

    @property
    def leads(self) -> bool:
        return boottime() < self._until

    def step(self) -> float:
        """One attempt to take or keep the lead. Returns the seconds until the next."""
        asked_at = boottime()
        try:
            with autocommit(self._stores.engine) as conn:
                row = conn.execute(TAKE, {"holder": self._holder}).one_or_none()
        finally:
            if self._led and not self.leads:
                self._lost()
        if row is None:
            if self._led:
                self._lost()
            return STANDBY_SECONDS
        self._clock.sync(row.now)
        self._until = asked_at + LEASE_SECONDS - MARGIN_SECONDS
        if not self._led:
            self._led = True
            self.taken.set()
            logger.info("lead_taken", scheduler=str(self._holder))
        return RENEW_SECONDS

    def give_up(self) -> None:
        """Lets a standby take over at once, on a stop in order."""
        self._until = 0.0
        if self._led:
            with autocommit(self._stores.engine) as conn:
                conn.execute(GIVE_UP, {"holder": self._holder})
            self._lost()

    def _lost(self) -> None:
        self._led = False
        self._until = 0.0
        self.taken.clear()
        logger.warning("lead_lost", scheduler=str(self._holder))
