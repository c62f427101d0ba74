"""Retention, in small batches (C22)."""

from __future__ import annotations

import structlog
from sqlalchemy import text
from sqlalchemy.sql.elements import TextClause

from app.database import autocommit
from app.stores import Stores

logger = structlog.get_logger(__name__)

INTERVAL_SECONDS = 60.0
BATCH = 500
BATCHES_PER_PASS = 200

# Executions go with their job (ON DELETE CASCADE). Each DELETE repeats the condition its rows were chosen by. Materialized: a
# sub-select that locks is run again for each row by some plans, and its LIMIT bounds nothing then.
_JOBS = """
    WITH old AS MATERIALIZED (
      SELECT id FROM jobs WHERE finished_at < (SELECT punctual_now()) - make_interval(days => :days) AND status IN ({statuses})
      ORDER BY finished_at LIMIT :most FOR UPDATE SKIP LOCKED)
    DELETE FROM jobs j USING old WHERE j.id = old.id
      AND j.finished_at < (SELECT punctual_now()) - make_interval(days => :days) AND j.status IN ({statuses})
"""
FINISHED = text(_JOBS.format(statuses="'done', 'cancelled'"))
DEAD = text(_JOBS.format(statuses="'dead'"))
# A row for many goes when the last of them would.
_PAST = "o.nominal_at < {age} AND coalesce(o.through_at, o.nominal_at) < {age} AND o.status <> 'buffered'".format(
    age="(SELECT punctual_now()) - make_interval(days => :days)"
)
OCCURRENCES = text(f"""
    WITH old AS MATERIALIZED (
      SELECT o.cron_entry_id, o.nominal_at FROM cron_occurrences o JOIN cron_entries e ON e.id = o.cron_entry_id
      WHERE {_PAST} AND coalesce(o.through_at, o.nominal_at) < coalesce(e.next_run_at, 'infinity')
      ORDER BY o.nominal_at LIMIT :most FOR UPDATE OF o SKIP LOCKED)
    DELETE FROM cron_occurrences o USING old, cron_entries e
    WHERE o.cron_entry_id = old.cron_entry_id AND o.nominal_at = old.nominal_at AND e.id = o.cron_entry_id
      AND {_PAST} AND coalesce(o.through_at, o.nominal_at) < coalesce(e.next_run_at, 'infinity')
""")
PROCESSES = text("""
    DELETE FROM processes p WHERE p.beat_at < punctual_now() - interval '1 day'
      AND NOT EXISTS (SELECT FROM jobs WHERE worker = p.id AND status = 'running')
""")

OPERATIONS = text("""
    DELETE FROM bulk_operations WHERE finished_at < (SELECT punctual_now()) - make_interval(days => :days)
""")
# Hosts that never failed enough to matter; what opened once is counted on.
CIRCUITS = text("""
    DELETE FROM circuits WHERE opened_at IS NULL AND openings = 0
      AND coalesce((SELECT max(span) FROM unnest(spans) AS span), changed_at) < (SELECT punctual_now()) - interval '1 day'
""")


class Pruner:
    def __init__(self, stores: Stores, retention_days: int, dead_retention_days: int) -> None:
        self._stores, self._retention_days = stores, retention_days
        self._batches: tuple[tuple[str, TextClause, int], ...] = (
            ("jobs", FINISHED, retention_days),
            ("dead_jobs", DEAD, dead_retention_days),
            ("occurrences", OCCURRENCES, retention_days),
        )

    def run_once(self) -> float:
        """Deletes what is past retention, a bounded number of batches a pass. Returns the seconds until the next."""
        for what, statement, days in self._batches:
            deleted = self._prune(statement, days)
            if deleted:
                logger.info("pruned", what=what, count=deleted)
        with autocommit(self._stores.engine) as conn:
            conn.execute(PROCESSES)
            conn.execute(OPERATIONS, {"days": self._retention_days})
            conn.execute(CIRCUITS)
        return INTERVAL_SECONDS

    def _prune(self, statement: TextClause, days: int) -> int:
        total = 0
        for _ in range(BATCHES_PER_PASS):
            with autocommit(self._stores.engine) as conn:
                deleted = conn.execute(statement, {"days": days, "most": BATCH}).rowcount
            total += deleted
            if deleted < BATCH:
                break
        return total
