"""Changes of many jobs, a batch at a time, so that other loops and locks never wait long for them."""

from __future__ import annotations

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.database import is_passing, sqlstate
from app.jobs import bulk_operations
from app.stores import Stores

logger = structlog.get_logger(__name__)

INTERVAL_SECONDS = 0.5
# How often in a row finding a batch may take too long, before that is taken for the filter's fault.
MOST_TIMEOUTS = 3
QUERY_CANCELED = "57014"


class Bulk:
    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._last = 0
        self._timeouts: dict[int, int] = {}

    def run_once(self) -> float:
        """One batch of the operation whose turn it is. Returns the seconds until the next: none while there may be more."""
        operation_id = bulk_operations.next_open(self._stores.engine, self._last)
        if operation_id is None:
            return INTERVAL_SECONDS
        self._last = operation_id
        try:
            is_done = bulk_operations.step(self._stores, operation_id)
        except SQLAlchemyError as error:
            if self._may_try_again(operation_id, error):
                raise
            logger.exception("bulk_operation_failed", operation=operation_id)
            told = str(getattr(error, "orig", None) or error).splitlines()[0]
            bulk_operations.fail(self._stores.engine, operation_id, told)
            is_done = True
        self._timeouts.pop(operation_id, None)
        return 0.0 if is_done else INTERVAL_SECONDS

    def _may_try_again(self, operation_id: int, error: SQLAlchemyError) -> bool:
        if sqlstate(error) != QUERY_CANCELED:
            return is_passing(error)
        self._timeouts[operation_id] = self._timeouts.get(operation_id, 0) + 1
        return self._timeouts[operation_id] < MOST_TIMEOUTS
