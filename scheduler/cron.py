"""Fires due cron entries, in batches, each batch one transaction (C20)."""

from __future__ import annotations

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.database import is_connection_lost, transaction
from app.jobs import enqueue
from app.jobs.fire import Fired, fire_due
from app.stores import Stores

logger = structlog.get_logger(__name__)

INTERVAL_SECONDS = 0.2
MOST = 200


class Cron:
    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def run_once(self) -> float:
        """Fires everything due. Returns the seconds until the next look."""
        after, has_more = 0, False
        while True:
            fired = self._fire(after)
            if fired is None or fired.entries == 0:
                return 0.0 if has_more else INTERVAL_SECONDS
            has_more = has_more or fired.has_more
            after = fired.last_entry_id

    def _fire(self, after: int) -> Fired | None:
        """One batch; if the database refuses it, entry by entry, so that one bad entry stops no other."""
        try:
            return self._fire_batch(after, MOST)
        except SQLAlchemyError as error:
            if is_connection_lost(error):
                raise
            logger.warning("cron_batch_failed", error=str(error).splitlines()[0])
        return self._fire_singly(after)

    def _fire_batch(self, after: int, most: int) -> Fired:
        with transaction(self._stores.engine) as conn:
            fired = fire_due(conn, after, most)
        if fired.jobs and fired.now is not None:
            logger.info("cron_fired", jobs=len(fired.jobs), entries=fired.entries)
            enqueue(self._stores, fired.jobs, fired.now)
        return fired

    def _fire_singly(self, after: int) -> Fired | None:
        last: Fired | None = None
        for _ in range(MOST):
            try:
                last = self._fire_batch(after, 1)
            except SQLAlchemyError as error:
                if is_connection_lost(error):
                    raise
                logger.exception("cron_entry_failed", after_cron_entry=after)
                return last
            if last.entries == 0:
                return last
            after = last.last_entry_id
        return last
