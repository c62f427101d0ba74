"""Dead jobs by what killed them and where: one row for each error class and callback host."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Engine, text

from app.database import autocommit
from app.jobs.search import COUNT_CAP

MOST_GROUPS = 50
MOST_COUNTED = 1000

# The partial index is stepped through from pair to pair; each group is counted up to the cap, so that an outage that left a
# million dead jobs costs no more than one that left ten thousand.
GROUPS = text("""
    WITH RECURSIVE pairs AS (
      (SELECT last_error_class AS error_class, callback_host FROM jobs WHERE status = 'dead' AND last_error_class IS NOT NULL
       ORDER BY last_error_class, callback_host LIMIT 1)
      UNION ALL
      SELECT following.* FROM pairs p CROSS JOIN LATERAL (
        SELECT last_error_class, callback_host FROM jobs
        WHERE status = 'dead' AND (last_error_class, callback_host) > (p.error_class, p.callback_host)
        ORDER BY last_error_class, callback_host LIMIT 1) following
    ),
    largest AS MATERIALIZED (
      SELECT p.error_class, p.callback_host, counted.number FROM (SELECT * FROM pairs LIMIT :counted) p
      CROSS JOIN LATERAL (SELECT count(*) AS number FROM (
        SELECT FROM jobs WHERE status = 'dead' AND last_error_class = p.error_class AND callback_host = p.callback_host
        LIMIT :cap) capped) counted
      ORDER BY counted.number DESC, p.error_class, p.callback_host LIMIT :most
    )
    SELECT l.error_class, l.callback_host, l.number, newest.id, newest.last_error, newest.last_status_code, newest.finished_at
    FROM largest l CROSS JOIN LATERAL (
      SELECT id, last_error, last_status_code, finished_at FROM jobs
      WHERE status = 'dead' AND last_error_class = l.error_class AND callback_host = l.callback_host
      ORDER BY id DESC LIMIT 1) newest
    ORDER BY l.number DESC, l.error_class, l.callback_host
""")


@dataclass(frozen=True, slots=True)
class DeadGroup:
    """Dead jobs with one error class and callback host, with the newest of them. A `count` above COUNT_CAP is "more"."""

    error_class: str
    callback_host: str
    count: int
    newest_id: UUID
    last_error: str | None
    last_status_code: int | None
    finished_at: datetime


def groups(engine: Engine) -> list[DeadGroup]:
    """The MOST_GROUPS largest groups, the largest first."""
    values = {"counted": MOST_COUNTED, "most": MOST_GROUPS, "cap": COUNT_CAP + 1}
    with autocommit(engine) as conn:
        return [DeadGroup(*row) for row in conn.execute(GROUPS, values)]
