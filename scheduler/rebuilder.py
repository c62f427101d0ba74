"""Refills Redis from PostgreSQL when the epoch says that it lost its data (C14)."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from uuid import uuid4

import structlog

from app.clock import Clock
from app.database import autocommit
from app.jobs.rescue import NIL, Place, due_by
from app.meters.scheduler import redis_rebuilds
from app.queues import reading
from app.stores import Stores
from app.stream import HORIZON

logger = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0
MOST = 2000
BEFORE_ALL = datetime(1, 1, 2, tzinfo=UTC)


class Rebuilder:
    """`epoch_lost` is set by the promoter, which sees the epoch fifty times a second."""

    def __init__(self, stores: Stores, clock: Clock, epoch_lost: threading.Event) -> None:
        self._stores = stores
        self._clock = clock
        self._epoch_lost = epoch_lost

    def run_once(self) -> float:
        """Rebuilds if the epoch is not ready. An epoch left `rebuilding` by a leader that is gone is begun anew."""
        self._epoch_lost.wait(LOOK_SECONDS)
        self._epoch_lost.clear()
        if not self._stores.stream.epoch().startswith("ready:"):
            self.rebuild()
        return 0.0

    def rebuild(self) -> bool:
        """Adds every due row and every scheduled row within the horizon. False: emptied again meanwhile; begin anew.

        A crash after any step leaves `rebuilding`, and the next leader begins anew; adding twice is harmless.
        """
        began, token, added = time.monotonic(), uuid4().hex, 0
        stream = self._stores.stream
        stream.begin_rebuild(token)
        stream.create_group()
        until = self._clock.now() + HORIZON
        place: Place | None = Place(BEFORE_ALL, NIL)
        while place is not None:
            with autocommit(self._stores.engine) as conn:
                jobs, place = due_by(conn, until, place, MOST)
            added += stream.add(jobs, self._clock.now())
        with autocommit(self._stores.engine) as conn:
            limits, slots = reading.limited(conn), reading.holding(conn)
        stream.hold_slots(slots, self._clock.now())
        stream.set_limits(limits, self._clock.now(), are_all=True)
        is_ready = stream.finish_rebuild(token)
        redis_rebuilds.inc()
        logger.warning("redis_rebuilt", added=added, ready=is_ready, seconds=round(time.monotonic() - began, 3))
        if not is_ready:
            self._epoch_lost.set()
        return is_ready
