"""Cancels jobs that were not begun by their expires_at."""

from __future__ import annotations

import structlog

from app.database import autocommit
from app.jobs.expire import expire
from app.stores import Stores

logger = structlog.get_logger(__name__)

INTERVAL_SECONDS = 1.0
MOST = 500


class Expirer:
    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def run_once(self) -> float:
        """One batch. Returns the seconds until the next: none while there may be more."""
        with autocommit(self._stores.engine) as conn:
            count = expire(conn, MOST)
        if count:
            logger.info("jobs_expired", count=count)
        return 0.0 if count == MOST else INTERVAL_SECONDS
