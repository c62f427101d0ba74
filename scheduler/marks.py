"""Finds due rows that are on no way any more, by marks (C16): a long, healthy backlog is left alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import structlog

from app.clock import Clock, boottime
from app.database import autocommit
from app.jobs.rescue import NIL, Place, bury_exhausted, due_since
from app.stores import Stores
from app.stream import StreamId
from scheduler.rebuilder import BEFORE_ALL

logger = structlog.get_logger(__name__)

GRACE_SECONDS = 3.0
# After so long the promoter is not waited for any more.
PROMOTER_SECONDS = 60.0
MOST = 1000
STEP_SECONDS = 0.5


@dataclass(slots=True)
class Mark:
    """One mark on its way to being settled. Times without a zone are boottime seconds."""

    t0: datetime
    epoch: str
    began: float
    l0: StreamId | None = None
    reached: float | None = None


class Marks:
    """`run_once` moves the current mark on; a settled one is followed by a walk over what was lost."""

    def __init__(self, stores: Stores, clock: Clock, *, boottime: Callable[[], float] = boottime) -> None:
        self._stores = stores
        self._clock = clock
        self._boottime = boottime
        self._mark: Mark | None = None
        self.rescued = 0

    def reset(self) -> None:
        """Forgets the current mark, as when the lead is lost."""
        self._mark = None

    def run_once(self) -> float:
        """Returns the seconds until the next look."""
        epoch = self._stores.stream.epoch()
        mark = self._mark
        if not epoch.startswith("ready:"):
            self._mark = None
        elif mark is None or mark.epoch != epoch:
            self._mark = Mark(self._clock.now(), epoch, self._boottime())
        elif self._is_settled(mark):
            self._walk(mark.t0)
            self._mark = None
        return STEP_SECONDS

    def _is_settled(self, mark: Mark) -> bool:
        """Steps 2 and 3 of C16: all that was on its way at t0 has been handed out, and had time to be claimed."""
        stream, now = self._stores.stream, self._boottime()
        if mark.l0 is None:
            late = now - mark.began >= PROMOTER_SECONDS
            if now - mark.began >= GRACE_SECONDS and (late or not stream.holds_scheduled_before(mark.t0)):
                mark.l0 = stream.last_generated_id()
            return False
        if mark.reached is None:
            if stream.has_handed_out(mark.l0):
                mark.reached = now
            elif stream.last_delivered_id() is None:
                stream.create_group()
            return False
        return now - mark.reached >= GRACE_SECONDS

    def _walk(self, t0: datetime) -> None:
        """Step 4: what is still due and untouched since before t0 was lost, and is added again.

        A row that was locked when its turn came was put back into the set with a later score: that is a way, too.
        """
        place: Place | None = Place(BEFORE_ALL, NIL)
        while place is not None:
            with autocommit(self._stores.engine) as conn:
                waiting, exhausted, place = due_since(conn, t0, place, MOST)
                bury_exhausted(conn, exhausted)
            lost = self._stores.stream.on_no_way(waiting, t0)
            if exhausted:
                logger.error(
                    "exhausted_jobs_buried", jobs=[str(job_id) for job_id in exhausted[:20]], count=len(exhausted)
                )
            if lost:
                self.rescued += len(lost)
                logger.warning("lost_jobs_added", count=len(lost), first_job_id=lost[0].ticket.job_id)
                self._stores.stream.add(lost, self._clock.now())
