"""Entries as lists show them: without payloads, with what became of their last twenty times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Engine, text

from app.database import autocommit

STRIP = 20
# What an entry can be in; `ended` is enabled without a time to come.
STATES = ("enabled", "paused", "disabled", "ended")

ENTRIES = text("""
    SELECT e.id, e.client_id, c.name AS client_name, e.name, e.expression, e.timezone, e.overlap, e.enabled, e.disabled_reason,
           e.paused_at, e.pause_reason, e.next_run_at, e.due_at, e.last_run_at, e.job_type, e.callback_host
    FROM cron_entries e JOIN clients c ON c.id = e.client_id
    WHERE e.id < :below AND (CAST(:client_id AS bigint) IS NULL OR e.client_id = :client_id)
      AND (CAST(:q AS text) IS NULL OR e.name ILIKE :q OR e.job_type ILIKE :q OR e.id::text = :exact)
      AND CASE CAST(:state AS text) WHEN 'enabled' THEN e.enabled AND e.next_run_at IS NOT NULL
                                    WHEN 'ended' THEN e.enabled AND e.next_run_at IS NULL
                                    WHEN 'disabled' THEN e.disabled_reason IS NOT NULL
                                    WHEN 'paused' THEN NOT e.enabled AND e.disabled_reason IS NULL ELSE true END
    ORDER BY e.id DESC LIMIT :most
""")
OUTCOMES = text(f"""
    SELECT e.id, o.nominal_at, o.status, o.reason, o.count AS stands_for, o.job_id, j.status AS job_status
    FROM unnest(CAST(:ids AS bigint[])) AS e(id)
    CROSS JOIN LATERAL (
      SELECT * FROM cron_occurrences WHERE cron_entry_id = e.id ORDER BY nominal_at DESC LIMIT {STRIP}) o
    LEFT JOIN jobs j ON j.id = o.job_id
    ORDER BY e.id, o.nominal_at
""")
# A page of one entry's times, newest first.
TIMES = text("""
    SELECT o.nominal_at, o.due_at, o.status, o.reason, o.detail, o.through_at, o.count AS stands_for, o.job_id, j.status AS job_status
    FROM cron_occurrences o LEFT JOIN jobs j ON j.id = o.job_id
    WHERE o.cron_entry_id = :id AND (CAST(:before AS timestamptz) IS NULL OR o.nominal_at < :before)
    ORDER BY o.nominal_at DESC LIMIT :most
""")
LAST_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one time, and of its job, while that is kept."""

    nominal_at: datetime
    status: str
    reason: str | None
    count: int
    job_id: UUID | None
    job_status: str | None


@dataclass(frozen=True, slots=True)
class Time:
    """The same with all that is on record about it."""

    nominal_at: datetime
    due_at: datetime | None
    status: str
    reason: str | None
    detail: str | None
    through_at: datetime | None
    stands_for: int
    job_id: UUID | None
    job_status: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One entry of a list. `outcomes` are its last twenty times, oldest first."""

    id: int
    client_id: int
    client_name: str
    name: str | None
    expression: str
    timezone: str
    overlap: str
    enabled: bool
    disabled_reason: str | None
    paused_at: datetime | None
    pause_reason: str | None
    next_run_at: datetime | None
    due_at: datetime | None
    last_run_at: datetime | None
    job_type: str
    callback_host: str
    outcomes: Sequence[Outcome] = field(default_factory=tuple)


def search(
    engine: Engine, *, q: str | None, state: str | None, client_id: int | None, below: int | None, most: int
) -> list[Summary]:
    """Up to `most` entries, newest first, whose name or type holds `q`, or whose id it is."""
    values: dict[str, Any] = {
        "q": None if q is None else f"%{_escaped(q)}%",
        "exact": q,
        "state": state,
        "client_id": client_id,
        "below": LAST_ID if below is None else below,
        "most": most,
    }
    with autocommit(engine) as conn:
        rows = conn.execute(ENTRIES, values).mappings().all()
    outcomes = last_outcomes(engine, [row["id"] for row in rows])
    return [Summary(**row, outcomes=outcomes[row["id"]]) for row in rows]


def last_outcomes(engine: Engine, entry_ids: Sequence[int]) -> dict[int, list[Outcome]]:
    """The last twenty times of each entry, oldest first."""
    found: dict[int, list[Outcome]] = defaultdict(list)
    with autocommit(engine) as conn:
        for row in conn.execute(OUTCOMES, {"ids": list(entry_ids)}):
            found[row.id].append(
                Outcome(row.nominal_at, row.status, row.reason, row.stands_for, row.job_id, row.job_status)
            )
    return found


def times(engine: Engine, entry_id: int, before: datetime | None, most: int) -> list[Time]:
    """Up to `most` times of an entry, newest first; `before` begins below that one."""
    with autocommit(engine) as conn:
        rows = conn.execute(TIMES, {"id": entry_id, "before": before, "most": most}).mappings()
        return [Time(**row) for row in rows]


def _escaped(q: str) -> str:
    return q.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
