"""What the operating pages read: processes, attempts across jobs, and the audit log. Each look is bounded."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text

PAGE = 50
# A filter, or slow ones first, looks at this many of the newest attempts: an index by every column would cost each record.
NEWEST_ATTEMPTS = 20_000

PROCESSES = text("""
    SELECT p.*, (l.holder = p.id AND l.expires_at > punctual_now()) IS TRUE AS leads,
           CASE WHEN p.stopped_at IS NOT NULL THEN 'stopped' WHEN p.lost_at IS NOT NULL THEN 'lost' ELSE 'alive' END AS state,
           (SELECT count(*) FROM jobs j WHERE j.worker = p.id AND j.status = 'running') AS running
    FROM processes p CROSS JOIN leader l
    ORDER BY (p.stopped_at IS NULL AND p.lost_at IS NULL) DESC, p.beat_at DESC LIMIT 100
""")
THROUGHPUT = text("""
    SELECT coalesce(sum(count), 0) AS attempts FROM minute_stats
    WHERE minute >= (SELECT date_trunc('minute', punctual_now()) - interval '5 minutes')
      AND minute < (SELECT date_trunc('minute', punctual_now()))
""")
EXECUTIONS = """
    SELECT e.job_id, e.queue_generation, e.attempt, e.number, e.status, e.due_at, e.started_at, e.finished_at, e.status_code,
           e.error_class, e.error, j.type, j.callback_host, c.name AS client
    FROM (SELECT * FROM executions WHERE (finished_at, job_id) < (:before_at, :before_id)
          ORDER BY finished_at DESC, job_id DESC LIMIT :looked_at) e
    JOIN jobs j ON j.id = e.job_id JOIN clients c ON c.id = j.client_id
    WHERE (CAST(:status AS text) IS NULL OR e.status = :status)
      AND (CAST(:host AS text) IS NULL OR j.callback_host ILIKE '%' || CAST(:host AS text) || '%')
      AND (CAST(:code AS int) IS NULL OR e.status_code = :code)
    ORDER BY {order} LIMIT :most
"""
NEWEST_FIRST = text(EXECUTIONS.format(order="e.finished_at DESC, e.job_id DESC"))
SLOWEST_FIRST = text(EXECUTIONS.format(order="e.finished_at - e.started_at DESC, e.job_id DESC"))
AUDIT = text("""
    SELECT a.id, a.at, a.actor_kind, a.actor, a.action, a.target_kind, a.target_id, a.detail, a.address, c.name AS client
    FROM audit_log a LEFT JOIN clients c ON c.id = a.client_id
    WHERE a.id < :before AND (CAST(:q AS text) IS NULL OR a.actor = :q OR a.target_id = :q OR a.action LIKE CAST(:q AS text) || '%')
    ORDER BY a.id DESC LIMIT :most
""")
LAST_ID = 2**63 - 1
END_OF_TIME = datetime.fromisoformat("9999-12-31T00:00:00+00:00")
LAST_UUID = "ffffffff-ffff-ffff-ffff-ffffffffffff"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFilter:
    """Which attempts to show. `before` continues below an attempt: its end and its job's id."""

    status: str | None = None
    host: str | None = None
    code: int | None = None
    is_slowest_first: bool = False
    before: tuple[datetime, str] | None = None

    @property
    def is_narrow(self) -> bool:
        """Whether only the newest attempts are looked at."""
        return bool(self.status or self.host or self.code or self.is_slowest_first)


def processes(conn: Connection) -> list[dict[str, Any]]:
    """Every process of the last day, the living first."""
    return [dict(row) for row in conn.execute(PROCESSES).mappings()]


def living(conn: Connection, most: int = 20) -> list[dict[str, Any]]:
    """The processes that are neither lost nor stopped."""
    return [process for process in processes(conn) if process["state"] == "alive"][:most]


def attempts_per_minute(conn: Connection) -> float:
    """Ended attempts a minute, over the last five whole minutes."""
    return float(conn.execute(THROUGHPUT).scalar_one()) / 5


def attempts(conn: Connection, wanted: AttemptFilter) -> list[dict[str, Any]]:
    """A page of attempts and one more, which says that there is a next page."""
    before_at, before_id = wanted.before or (END_OF_TIME, LAST_UUID)
    statement = SLOWEST_FIRST if wanted.is_slowest_first else NEWEST_FIRST
    parameters = {
        "status": wanted.status,
        "host": wanted.host,
        "code": wanted.code,
        "before_at": before_at,
        "before_id": before_id,
        "looked_at": NEWEST_ATTEMPTS if wanted.is_narrow else PAGE + 1,
        "most": PAGE + 1,
    }
    return [dict(row) for row in conn.execute(statement, parameters).mappings()]


def audit_entries(conn: Connection, q: str | None, before: int | None) -> list[dict[str, Any]]:
    """A page of the audit log and one more, newest first; `q` is an actor, a target's id, or how an action begins."""
    parameters = {"q": q, "before": before or LAST_ID, "most": PAGE + 1}
    return [dict(row) for row in conn.execute(AUDIT, parameters).mappings()]
