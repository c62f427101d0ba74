"""What PostgreSQL knows about the jobs, read when Prometheus asks: the same from every web process on every host."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import Any

from sqlalchemy import Connection, text

from app.jobs.stats import OUTCOMES
from app.meters.bounded import MOST_PAIRS
from app.processes import SILENCE_SECONDS
from app.system_health import OLDEST_UNHELD

# Counting stops here: beyond it a planner's estimate is good enough, and a scrape stays cheap with a million jobs.
COUNT_EXACTLY = 100_000
# Minutes this old are written no more, for a recorder's transaction is cut off long before (app.database.BOUNDS).
SETTLED = "5 minutes"
# Jobs of one queue are counted up to here.
MOST_DUE = 1_000

SETTLED_UNTIL = text(f"SELECT date_trunc('minute', punctual_now() - interval '{SETTLED}') AS until")
OUTCOME_COUNTS = """
    SELECT outcome, sum(count)::bigint AS total FROM minute_stats WHERE {condition} GROUP BY outcome
"""
BETWEEN = text(OUTCOME_COUNTS.format(condition="minute >= :since AND minute < :until"))
BEFORE = text(OUTCOME_COUNTS.format(condition="minute < :until"))
SINCE = text(OUTCOME_COUNTS.format(condition="minute >= :since"))

# Each is a range of one index of `jobs`; the sub-select lets PostgreSQL read the time once.
ROWS = {
    "ready": "status IN ('pending', 'scheduled') AND run_at <= (SELECT punctual_now())",
    "scheduled": "status IN ('pending', 'scheduled') AND run_at > (SELECT punctual_now())",
    "running": "status = 'running'",
    "dead": "status = 'dead'",
}
OLDEST_DUE = text(f"SELECT greatest(0, extract(epoch FROM punctual_now() - ({OLDEST_UNHELD})))::float8 AS seconds")
ALIVE = text(f"""
    SELECT kind, count(*) AS total FROM processes
    WHERE lost_at IS NULL AND stopped_at IS NULL AND beat_at > punctual_now() - make_interval(secs => {SILENCE_SECONDS})
    GROUP BY kind
""")
LEADING = text("SELECT EXISTS (SELECT FROM leader WHERE holder IS NOT NULL AND expires_at > punctual_now())")
# The queues that have the most series to themselves are those that were made first: which ones they are never changes.
QUEUES = text(f"""
    WITH clock AS MATERIALIZED (SELECT punctual_now() AS now),
    shown AS (SELECT id, client_id, name FROM queues ORDER BY id LIMIT {MOST_PAIRS})
    SELECT c.name AS client, q.name AS queue,
           (SELECT count(*) FROM (SELECT FROM jobs j WHERE j.queue_id = q.id AND j.status IN ('pending', 'scheduled')
                                    AND j.run_at <= clock.now LIMIT {MOST_DUE}) due) AS due,
           coalesce((SELECT greatest(0, extract(epoch FROM clock.now - min(j.run_at))) FROM jobs j
                     WHERE j.queue_id = q.id AND j.status IN ('pending', 'scheduled')), 0)::float8 AS age
    FROM shown q JOIN clients c ON c.id = q.client_id CROSS JOIN clock
""")
BEATS = text(
    "SELECT kind, greatest(0, extract(epoch FROM punctual_now() - max(beat_at)))::float8 AS age FROM processes GROUP BY kind"
)
CRON_ENTRIES = text("SELECT count(*) FILTER (WHERE enabled), count(*) FILTER (WHERE NOT enabled) FROM cron_entries")
CIRCUITS = text(
    "SELECT count(*) FILTER (WHERE opened_at IS NOT NULL) AS open, coalesce(sum(openings), 0)::bigint FROM circuits"
)
# An alert sees a total grow only from one that it saw before.
MISSED_NONE = {("skipped", "missed"): 0}
CRON_TOTALS = text("SELECT status, reason, sum(count)::bigint AS total FROM cron_totals GROUP BY 1, 2 ORDER BY 1, 2")


@dataclass(frozen=True, slots=True)
class Truth:
    """One look. `outcomes` counts ended attempts since the beginning; `rows` holds jobs by where they stand now.

    `cron_totals` counts planned times of cron entries since the beginning, by status and reason.
    `circuits`: how many are open, and how often any opened.
    `queues`: by client and queue, the due jobs and the seconds the oldest has waited; the first queues alone.
    `beat_ages`: seconds since the last sign of life, by kind of process.
    """

    outcomes: Mapping[str, int]
    rows: Mapping[str, int]
    oldest_due_seconds: float
    alive: Mapping[str, int]
    is_led: bool
    cron_entries: tuple[int, int]
    circuits: tuple[int, int]
    cron_totals: Mapping[tuple[str, str], int]
    queues: Mapping[tuple[str, str], tuple[int, float]]
    beat_ages: Mapping[str, float]


class OutcomeTotals:
    """Sums minute_stats over all time, and reads only the last minutes again: settled ones are summed once a process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._until: datetime | None = None
        self._settled: Counter[str] = Counter()

    def read(self, conn: Connection) -> dict[str, int]:
        """Ended attempts by outcome."""
        with self._lock:
            until: datetime = conn.execute(SETTLED_UNTIL).scalar_one()
            if self._until is None:
                self._settled.update(_counts(conn, BEFORE, until=until))
                self._until = until
            elif self._until < until:
                self._settled.update(_counts(conn, BETWEEN, since=self._until, until=until))
                self._until = until
            recent = _counts(conn, SINCE, since=self._until)
            return {outcome: self._settled[outcome] + recent.get(outcome, 0) for outcome in OUTCOMES}


def read_truth(conn: Connection, totals: OutcomeTotals) -> Truth:
    """Everything a scrape needs, in a few statements of bounded cost."""
    oldest = conn.execute(OLDEST_DUE).scalar_one_or_none()
    circuits = conn.execute(CIRCUITS).one()
    enabled, paused = conn.execute(CRON_ENTRIES).one()
    return Truth(
        outcomes=totals.read(conn),
        rows={name: _count(conn, condition) for name, condition in ROWS.items()},
        oldest_due_seconds=oldest or 0.0,
        alive={row.kind: row.total for row in conn.execute(ALIVE)},
        is_led=bool(conn.execute(LEADING).scalar_one()),
        cron_entries=(enabled, paused),
        circuits=(circuits[0], circuits[1]),
        cron_totals=MISSED_NONE | {(row.status, row.reason): row.total for row in conn.execute(CRON_TOTALS)},
        queues={(row.client, row.queue): (row.due, row.age) for row in conn.execute(QUEUES)},
        beat_ages={row.kind: row.age for row in conn.execute(BEATS)},
    )


def _counts(conn: Connection, statement: Any, **parameters: datetime) -> dict[str, int]:
    return {row.outcome: row.total for row in conn.execute(statement, parameters)}


def _count(conn: Connection, condition: str) -> int:
    """Rows of `jobs`: exact up to COUNT_EXACTLY, then PostgreSQL's estimate, but no less."""
    rows = f"SELECT FROM jobs WHERE {condition}"
    exact: int = conn.execute(text(f"SELECT count(*) FROM ({rows} LIMIT {COUNT_EXACTLY}) AS counted")).scalar_one()
    if exact < COUNT_EXACTLY:
        return exact
    plan: Any = conn.execute(text(f"EXPLAIN (FORMAT JSON) {rows}")).scalar_one()
    plan = json.loads(plan) if isinstance(plan, str) else plan
    return max(exact, int(plan[0]["Plan"]["Plan Rows"]))
