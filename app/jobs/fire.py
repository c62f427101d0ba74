"""Firing cron entries: occurrence, job and next time in one transaction (C20)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import Connection, RowMapping, text

from app.cron import CronError
from app.ids import uuid7
from app.jobs.changes import cancel_for_next
from app.occurrences import Entry, Plan, plan
from app.stream import Due, Ticket

logger = structlog.get_logger(__name__)

LOCK_DUE = text("""
    WITH clock AS MATERIALIZED (SELECT punctual_now() AS now)
    SELECT e.*, clock.now, (j.status IN ('pending', 'scheduled', 'running')) IS TRUE AS is_running
    FROM cron_entries e CROSS JOIN clock LEFT JOIN jobs j ON j.id = e.last_job_id
    WHERE e.enabled AND e.next_run_at <= (SELECT punctual_now()) AND e.id > :after
    ORDER BY e.id LIMIT :most FOR NO KEY UPDATE OF e SKIP LOCKED
""")
OCCURRENCES = text("""
    INSERT INTO cron_occurrences (cron_entry_id, nominal_at, status, job_id, reason, through_at, count, created_at)
    SELECT u.*, punctual_now() FROM unnest(CAST(:entries AS bigint[]), CAST(:nominal AS timestamptz[]), CAST(:statuses AS text[]),
      CAST(:jobs AS uuid[]), CAST(:reasons AS text[]), CAST(:through AS timestamptz[]), CAST(:counts AS int[])) AS u
    ON CONFLICT DO NOTHING RETURNING cron_entry_id, nominal_at, status, job_id
""")
JOBS = text("""
    WITH clock AS MATERIALIZED (SELECT punctual_now() AS now)
    INSERT INTO jobs (id, client_id, type, payload, payload_bytes, callback_url, callback_host, status, run_at, scheduled_for,
                      max_attempts, cron_entry_id, created_at, updated_at)
    SELECT u.id, e.client_id, e.job_type, e.payload, octet_length(e.payload), e.callback_url, e.callback_host, 'pending',
           u.nominal_at, u.nominal_at, e.max_attempts, e.id, clock.now, clock.now
    FROM unnest(CAST(:ids AS uuid[]), CAST(:entries AS bigint[]), CAST(:nominal AS timestamptz[])) AS u(id, entry, nominal_at)
    JOIN cron_entries e ON e.id = u.entry CROSS JOIN clock
    RETURNING id, run_at
""")
ADVANCE = text("""
    UPDATE cron_entries e SET next_run_at = u.next_run_at, last_run_at = coalesce(u.last_run_at, e.last_run_at),
                              last_job_id = coalesce(u.job, e.last_job_id)
    FROM unnest(CAST(:entries AS bigint[]), CAST(:next AS timestamptz[]), CAST(:last AS timestamptz[]), CAST(:jobs AS uuid[]))
      AS u(id, next_run_at, last_run_at, job)
    WHERE e.id = u.id
""")
DISABLE = text("""
    UPDATE cron_entries SET enabled = false, next_run_at = NULL, disabled_reason = :reason, updated_at = punctual_now() WHERE id = :id
""")


@dataclass(frozen=True, slots=True)
class Fired:
    """What one pass came to: jobs to enqueue after the commit, how many entries were looked at, and the last one's id."""

    jobs: list[Due]
    entries: int
    last_entry_id: int
    now: datetime | None
    has_more: bool


def fire_due(conn: Connection, after: int, most: int) -> Fired:
    """Fires up to `most` due entries with an id above `after`, in one transaction of the caller's.

    1. Lock the entries. Another scheduler that does the same skips them.
    2. Write the occurrences; one that is there already makes no second job, whoever wrote it.
    3. Insert the jobs of new occurrences.
    4. Advance each entry, in either case, and commit. A crash before it leaves nothing; after it, the jobs are due rows that
       the rescuer finds if they are not enqueued.
    An entry that cannot be computed is disabled with the error in words; the others go on.
    """
    entries = conn.execute(LOCK_DUE, {"after": after, "most": most}).mappings().all()
    plans = [(entry, made) for entry in entries if (made := _plan(conn, entry)) is not None]
    fired = _write_occurrences(conn, plans)
    for entry, made in plans:
        if made.cancels_previous and entry["last_job_id"] is not None:
            cancel_for_next(conn, entry["last_job_id"])
    jobs = _write_jobs(conn, fired)
    _advance(conn, plans, fired)
    return Fired(
        jobs,
        len(entries),
        entries[-1]["id"] if entries else after,
        entries[0]["now"] if entries else None,
        any(made.has_more for _, made in plans),
    )


def _plan(conn: Connection, entry: RowMapping) -> Plan | None:
    try:
        return plan(
            Entry(
                entry["expression"],
                entry["timezone"],
                entry["next_run_at"],
                entry["overlap"],
                entry["catch_up"],
                entry["catch_up_window_seconds"],
                entry["is_running"],
            ),
            entry["now"],
        )
    except CronError as error:
        logger.error("cron_entry_disabled", cron_entry=entry["id"], error=str(error))
        conn.execute(DISABLE, {"id": entry["id"], "reason": str(error)})
        return None


def _write_occurrences(conn: Connection, plans: Sequence[tuple[RowMapping, Plan]]) -> list[tuple[int, datetime, UUID]]:
    """Stores all occurrences; returns entry, nominal time and job id of those that are new and fire, in order."""
    rows = [(entry["id"], occurrence) for entry, made in plans for occurrence in made.occurrences]
    if not rows:
        return []
    written = conn.execute(
        OCCURRENCES,
        {
            "entries": [entry_id for entry_id, _ in rows],
            "nominal": [occurrence.nominal_at for _, occurrence in rows],
            "statuses": [occurrence.status for _, occurrence in rows],
            "jobs": [uuid7() if occurrence.status == "fired" else None for _, occurrence in rows],
            "reasons": [occurrence.reason for _, occurrence in rows],
            "through": [occurrence.through_at for _, occurrence in rows],
            "counts": [occurrence.count for _, occurrence in rows],
        },
    )
    fired = [(row.cron_entry_id, row.nominal_at, row.job_id) for row in written if row.status == "fired"]
    return sorted(fired, key=lambda row: (row[0], row[1]))


def _write_jobs(conn: Connection, fired: Sequence[tuple[int, datetime, UUID]]) -> list[Due]:
    if not fired:
        return []
    parameters: dict[str, list[Any]] = {
        "ids": [job_id for _, _, job_id in fired],
        "entries": [entry_id for entry_id, _, _ in fired],
        "nominal": [nominal_at for _, nominal_at, _ in fired],
    }
    return [Due(Ticket(str(row.id), 0, 0), row.run_at) for row in conn.execute(JOBS, parameters)]


def _advance(
    conn: Connection, plans: Sequence[tuple[RowMapping, Plan]], fired: Sequence[tuple[int, datetime, UUID]]
) -> None:
    if not plans:
        return
    last = {entry_id: (nominal_at, job_id) for entry_id, nominal_at, job_id in fired}
    nothing: tuple[None, None] = (None, None)
    conn.execute(
        ADVANCE,
        {
            "entries": [entry["id"] for entry, _ in plans],
            "next": [made.next_run_at for _, made in plans],
            "last": [last.get(entry["id"], nothing)[0] for entry, _ in plans],
            "jobs": [last.get(entry["id"], nothing)[1] for entry, _ in plans],
        },
    )
