"""Fires due cron entries, and those that waited for a job to end, in batches, each batch one transaction (C20)."""

from __future__ import annotations

from collections.abc import Callable

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from app.clock import boottime
from app.crash_points import reach
from app.database import autocommit, is_connection_lost, sqlstate, transaction
from app.jobs import enqueue
from app.jobs.fire import Firing, Position, due_entries, fire_due
from app.jobs.fire_buffered import fire_buffered, waiting_entries
from app.stores import Stores

logger = structlog.get_logger(__name__)

INTERVAL_SECONDS = 0.05
MOST = 500
# How long an entry that the database refuses is left alone.
REFUSED_SECONDS = 5.0
# Out of memory, disk or connections; a standby: true of every entry.
NOT_ABOUT_AN_ENTRY = ("53", "25")

Fire = Callable[[Connection, list[int]], Firing]


class Cron:
    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._refused: dict[int, float] = {}
        self._after: Position | None = None

    def run_once(self) -> float:
        """Fires one batch of what waited, and one of what is due. Returns the seconds until the next look."""
        # What waited comes first: its place is then free for a newer one.
        with autocommit(self._stores.engine) as conn:
            waiting = waiting_entries(conn, MOST)
        self._fire(fire_buffered, waiting)
        with autocommit(self._stores.engine) as conn:
            due = due_entries(conn, self._after, MOST)
        has_more = self._fire(fire_due, [entry_id for _, entry_id in due])
        # Behind them goes on what is due as well; what was left alone stays in front, until the next look from the beginning.
        is_full = len(due) == MOST
        self._after = due[-1] if is_full else None
        return 0.0 if has_more or is_full else INTERVAL_SECONDS

    def _fire(self, fire: Fire, entry_ids: list[int]) -> bool:
        """One batch; one that the database refuses is halved until the bad entry stands alone and stops no other."""
        entry_ids = [entry_id for entry_id in entry_ids if self._refused.get(entry_id, 0.0) < boottime()]
        if not entry_ids:
            return False
        try:
            return self._fire_batch(fire, entry_ids)
        except SQLAlchemyError as error:
            if is_connection_lost(error) or (sqlstate(error) or "")[:2] in NOT_ABOUT_AN_ENTRY:
                raise
            if len(entry_ids) == 1:
                logger.exception("cron_entry_refused", cron_entry=entry_ids[0])
                self._leave_alone(entry_ids[0])
                return False
        half = len(entry_ids) // 2
        has_more = self._fire(fire, entry_ids[:half])
        return self._fire(fire, entry_ids[half:]) or has_more

    def _leave_alone(self, entry_id: int) -> None:
        now = boottime()
        self._refused = {id_: until for id_, until in self._refused.items() if until > now}
        self._refused[entry_id] = now + REFUSED_SECONDS

    def _fire_batch(self, fire: Fire, entry_ids: list[int]) -> bool:
        with transaction(self._stores.engine) as conn:
            firing = fire(conn, entry_ids)
        if firing.jobs and firing.now is not None:
            reach("fired")
            logger.info("cron_fired", jobs=len(firing.jobs), entries=len(entry_ids))
            enqueue(self._stores, firing.jobs, firing.now)
        return firing.has_more
