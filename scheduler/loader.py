"""Brings scheduled rows that enter the horizon into the set (C13). Stateless: each row is looked at several times."""

from __future__ import annotations

from app.clock import Clock
from app.database import autocommit
from app.jobs.rescue import NIL, Place, due_by
from app.stores import Stores
from app.stream import HORIZON

INTERVAL_SECONDS = 5.0
MOST = 1000


class Loader:
    def __init__(self, stores: Stores, clock: Clock) -> None:
        self._stores = stores
        self._clock = clock

    def run_once(self) -> float:
        """Adds every row due within the horizon and not yet due. Returns the seconds until the next pass."""
        now = self._clock.now()
        place: Place | None = Place(now, NIL)
        while place is not None:
            with autocommit(self._stores.engine) as conn:
                jobs, place = due_by(conn, now + HORIZON, place, MOST)
            self._stores.stream.add(jobs, self._clock.now())
        return INTERVAL_SECONDS
