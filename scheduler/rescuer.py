"""Takes running rows from workers that are gone (C17), and clears what they left pending in the stream (C15)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from uuid import UUID

import structlog

from app import jobs
from app.attempts import Answer
from app.clock import Clock, boottime
from app.database import autocommit
from app.jobs import Recorded, ToRecord
from app.jobs.rescue import NIL, LostClaim, lost_claims
from app.meters.attempts import count_recorded
from app.meters.scheduler import rescued
from app.outcomes import decide
from app.processes import SILENCE_SECONDS, alive_workers, mark_lost
from app.stores import Stores
from app.stream import token_of

logger = structlog.get_logger(__name__)

INTERVAL_SECONDS = 1.0
CLEAR_SECONDS = 10.0
PENDING_IDLE_MS = 30_000
MOST = 500
LOST_ERROR = "The worker that made this call was lost: it is not known whether the receiver got it."


class Rescuer:
    """`steady_seconds` says for how long this process's own beats have gone through without a gap."""

    def __init__(self, stores: Stores, clock: Clock, steady_seconds: Callable[[], float]) -> None:
        self._stores = stores
        self._clock = clock
        self._steady_seconds = steady_seconds
        self._cleared_at = 0.0
        self.lost = 0

    def run_once(self) -> float:
        """One pass. After an outage or a pause it judges nobody before workers had time to beat and to store what they hold."""
        if self._steady_seconds() >= SILENCE_SECONDS:
            with autocommit(self._stores.engine) as conn:
                for gone in mark_lost(conn):
                    logger.warning(
                        "process_lost", process=str(gone["id"]), kind=gone["kind"], host=gone["host"], pid=gone["pid"]
                    )
            self.rescue_lost()
        if boottime() - self._cleared_at >= CLEAR_SECONDS:
            self._cleared_at = boottime()
            self.clear_stream()
        return INTERVAL_SECONDS

    def rescue_lost(self) -> int:
        """Records every lost attempt as `lost`; its job goes the way of a failed one. Returns how many."""
        after: UUID | None = NIL
        total = 0
        while after is not None:
            with autocommit(self._stores.engine) as conn:
                found = lost_claims(conn, after, MOST)
                recorded = jobs.record(conn, [self._ending(lost) for lost in found])
            total += self._follow_up(recorded)
            after = found[-1].claim.job_id if len(found) == MOST else None
        self.lost += total
        return total

    def _ending(self, lost: LostClaim) -> ToRecord:
        now = self._clock.now()
        answer = Answer(lost.started_at, max(now, lost.started_at), error_class="lost", error=LOST_ERROR)
        return ToRecord(decide(lost.claim, answer, now, random.random()), lost.worker, lost.lease_ended)

    def _follow_up(self, recorded: Sequence[Recorded]) -> int:
        applied = [item for item in recorded if item.outcome == "applied"]
        count_recorded(applied)
        rescued.inc(len(applied))
        for item in applied:
            claim = item.ending.claim
            logger.warning("attempt_lost", job_id=str(claim.job_id), execution=claim.number, status=item.status)
        due = [job for item in applied for job in item.due]
        if due and applied[0].now is not None:
            jobs.enqueue(self._stores, due, applied[0].now)
        slots = [
            (token_of(item.ending.claim.lane), str(item.ending.claim.job_id))
            for item in applied
            if item.ending.claim.is_limited
        ]
        self._stores.bypass.call("release", lambda: self._stores.stream.release(slots, self._clock.now()), None)
        return len(applied)

    def clear_stream(self) -> None:
        """Drops what has been pending too long (the rows are the truth), trims, and removes consumers that are gone."""
        stream = self._stores.stream
        dropped = stream.drop_stale_pending("rescuer", PENDING_IDLE_MS)
        if dropped:
            logger.warning("stale_entries_dropped", count=dropped)
        stream.trim()
        with autocommit(self._stores.engine) as conn:
            alive = alive_workers(conn)
        stream.remove_consumers(alive)
