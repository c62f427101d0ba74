"""Storing what became of planned times, one row each, and counting it by status and reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Engine, select, text

from app.database import autocommit
from app.models import CronOccurrence
from app.occurrences import Occurrence, Reason, replaced_by

# Rows of cron_totals that one kind of event is spread over.
SLOTS = 16
# For a statement whose CTE `written` returns the status, reason and count of what it wrote.
_TALLIED = f"""
    tallied AS (
      INSERT INTO cron_totals (status, reason, slot, count)
      SELECT status, coalesce(reason, ''), pg_backend_pid() % {SLOTS}, sum(count)::bigint FROM written GROUP BY 1, 2 ORDER BY 1, 2
      ON CONFLICT (status, reason, slot) DO UPDATE SET count = cron_totals.count + excluded.count
    )
"""
WRITE = text(f"""
    WITH written AS (
      INSERT INTO cron_occurrences (cron_entry_id, nominal_at, due_at, status, job_id, reason, detail, through_at, count, created_at)
      SELECT u.*, punctual_now() FROM unnest(CAST(:entries AS bigint[]), CAST(:nominal AS timestamptz[]), CAST(:due AS timestamptz[]),
        CAST(:statuses AS text[]), CAST(:jobs AS uuid[]), CAST(:reasons AS text[]), CAST(:details AS text[]),
        CAST(:through AS timestamptz[]), CAST(:counts AS int[])) AS u
      ON CONFLICT DO NOTHING RETURNING cron_entry_id, nominal_at, due_at, status, job_id, reason, count
    ), {_TALLIED}
    SELECT cron_entry_id, nominal_at, due_at, status, job_id FROM written ORDER BY 1, 2
""")
# `nominal` holds what is to take a buffered one's place; when that is on record already, nothing does.
SKIP_BUFFERED = text(f"""
    WITH written AS (
      UPDATE cron_occurrences o SET status = 'skipped', reason = :reason, detail = u.detail
      FROM unnest(CAST(:entries AS bigint[]), CAST(:nominal AS timestamptz[]), CAST(:details AS text[])) AS u(entry, nominal_at, detail)
      WHERE o.cron_entry_id = u.entry AND o.status = 'buffered'
        AND NOT EXISTS (SELECT FROM cron_occurrences n WHERE n.cron_entry_id = u.entry AND n.nominal_at = u.nominal_at)
      RETURNING o.status, o.reason, o.count
    ), {_TALLIED}
    SELECT count(*) FROM written
""")
# May leave `buffered`, and `skipped` where a person asks for it (backfill).
FIRE = text(f"""
    WITH written AS (
      UPDATE cron_occurrences o SET status = 'fired', job_id = u.job, reason = NULL, detail = u.detail
      FROM unnest(CAST(:entries AS bigint[]), CAST(:nominal AS timestamptz[]), CAST(:jobs AS uuid[]), CAST(:details AS text[]))
        AS u(entry, nominal_at, job, detail)
      WHERE o.cron_entry_id = u.entry AND o.nominal_at = u.nominal_at AND o.status = ANY(CAST(:leaves AS text[])) AND o.count = 1
      RETURNING o.cron_entry_id, o.nominal_at, o.due_at, o.status, o.job_id, o.reason, o.count
    ), {_TALLIED}
    SELECT cron_entry_id, nominal_at, due_at, status, job_id FROM written ORDER BY 1, 2
""")


@dataclass(frozen=True, slots=True)
class Row:
    """An occurrence to store for an entry. One that fires brings the id of its job."""

    entry_id: int
    due_at: datetime
    occurrence: Occurrence
    job_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Fired:
    """An occurrence that now has this job."""

    entry_id: int
    nominal_at: datetime
    due_at: datetime
    job_id: UUID


@dataclass(frozen=True, slots=True)
class Stored:
    """An occurrence as kept. Its job may have been pruned since."""

    nominal_at: datetime
    due_at: datetime | None
    status: str
    job_id: UUID | None
    reason: str | None
    detail: str | None
    through_at: datetime | None
    count: int
    created_at: datetime


def write(conn: Connection, rows: Sequence[Row]) -> list[Fired]:
    """Stores occurrences; one that is on record already stays as it is. Returns those that are new and fire, in order."""
    if not rows:
        return []
    parameters: dict[str, list[Any]] = {
        "entries": [row.entry_id for row in rows],
        "nominal": [row.occurrence.nominal_at for row in rows],
        "due": [row.due_at for row in rows],
        "statuses": [row.occurrence.status for row in rows],
        "jobs": [row.job_id for row in rows],
        "reasons": [row.occurrence.reason for row in rows],
        "details": [row.occurrence.detail for row in rows],
        "through": [row.occurrence.through_at for row in rows],
        "counts": [row.occurrence.count for row in rows],
    }
    return [_fired(row) for row in conn.execute(WRITE, parameters) if row.status == "fired"]


def skip_buffered(conn: Connection, entry_ids: Sequence[int], reason: Reason, detail: str | None = None) -> None:
    """The buffered occurrences of entries, where there are any, will not run."""
    _skip_buffered(conn, [(entry_id, None, detail) for entry_id in entry_ids], reason)


def replace_buffered(conn: Connection, newer: Sequence[tuple[int, datetime]]) -> None:
    """What waits makes room for a newer one of its entry (id, nominal time), unless that is on record already."""
    _skip_buffered(conn, [(entry_id, instant, replaced_by(instant)) for entry_id, instant in newer], "overlap")


def _skip_buffered(conn: Connection, rows: Sequence[tuple[int, datetime | None, str | None]], reason: Reason) -> None:
    if not rows:
        return
    parameters: dict[str, Any] = {
        "entries": [entry_id for entry_id, _, _ in rows],
        "nominal": [nominal_at for _, nominal_at, _ in rows],
        "details": [detail for _, _, detail in rows],
        "reason": reason,
    }
    conn.execute(SKIP_BUFFERED, parameters)


def fire_stored(
    conn: Connection, jobs: Sequence[tuple[int, datetime, UUID]], leaves: Sequence[str], detail: str | None = None
) -> list[Fired]:
    """Gives stored occurrences (entry, nominal time) a job. Only those in a status of `leaves`, each a row of its own."""
    if not jobs:
        return []
    parameters: dict[str, list[Any]] = {
        "entries": [entry_id for entry_id, _, _ in jobs],
        "nominal": [nominal_at for _, nominal_at, _ in jobs],
        "jobs": [job_id for _, _, job_id in jobs],
        "details": [detail] * len(jobs),
        "leaves": list(leaves),
    }
    return [_fired(row) for row in conn.execute(FIRE, parameters)]


def list_occurrences(
    engine: Engine, entry_id: int, limit: int, offset: int = 0, before: datetime | None = None
) -> list[Stored]:
    """Up to `limit` occurrences of an entry, newest first; `before` begins below that nominal time."""
    columns = [getattr(CronOccurrence, name) for name in Stored.__slots__]
    query = select(*columns).where(CronOccurrence.cron_entry_id == entry_id)
    if before is not None:
        query = query.where(CronOccurrence.nominal_at < before)
    query = query.order_by(CronOccurrence.nominal_at.desc()).limit(limit).offset(offset)
    with autocommit(engine) as conn:
        return [Stored(**row) for row in conn.execute(query).mappings()]


def _fired(row: Any) -> Fired:
    return Fired(row.cron_entry_id, row.nominal_at, row.due_at or row.nominal_at, row.job_id)
