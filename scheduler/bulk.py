"""Changes of many jobs, a batch at a time, so that other loops and locks never wait long for them."""

from __future__ import annotations

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.database import is_passing
from app.jobs import bulk_operations
from app.stores import Stores

logger = structlog.get_logger(__name__)

INTERVAL_SECONDS = 0.5


class Bulk:
    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def run_once(self) -> float:
        """One batch. Returns the seconds until the next: none while there may be more."""
        try:
            return 0.0 if bulk_operations.step(self._stores) else INTERVAL_SECONDS
        except SQLAlchemyError as error:
            if is_passing(error):
                raise
            logger.exception("bulk_operation_failed")
            bulk_operations.fail(self._stores.engine, str(getattr(error, "orig", None) or error).splitlines()[0])
            return INTERVAL_SECONDS
