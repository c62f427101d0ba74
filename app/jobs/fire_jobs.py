"""Making the jobs of cron entries from their templates, many in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text

from app.callback import COLUMNS
from app.jobs.lanes import lane
from app.stream import Due, Ticket

INSERT = text(f"""
    WITH clock AS MATERIALIZED (SELECT punctual_now() AS now)
    INSERT INTO jobs AS j (id, client_id, queue_id, type, {", ".join(COLUMNS)}, payload_bytes, status, run_at, scheduled_for, first_due_at,
                      cron_entry_id, created_at, updated_at)
    SELECT u.id, e.client_id, q.id, e.job_type, {", ".join(f"e.{name}" for name in COLUMNS)}, coalesce(octet_length(e.payload), 0), 'pending',
           coalesce(u.run_at, clock.now), coalesce(u.scheduled_for, clock.now), clock.now, e.id, clock.now, clock.now
    FROM unnest(CAST(:ids AS uuid[]), CAST(:entries AS bigint[]), CAST(:run_at AS timestamptz[]), CAST(:scheduled_for AS timestamptz[]))
      AS u(id, entry, run_at, scheduled_for)
    JOIN cron_entries e ON e.id = u.entry JOIN queues q ON q.client_id = e.client_id AND q.name = e.queue CROSS JOIN clock
    RETURNING j.id, j.run_at, {lane("j")} AS lane
""")


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to make, due now or before. `run_at` and `scheduled_for` None stand for now."""

    id: UUID
    entry_id: int
    run_at: datetime | None = None
    scheduled_for: datetime | None = None


def insert_jobs(conn: Connection, jobs: Sequence[NewJob]) -> list[Due]:
    """Makes the jobs, `pending`; returns what to enqueue after the commit. For an entry that is gone none is made."""
    if not jobs:
        return []
    parameters = {
        "ids": [job.id for job in jobs],
        "entries": [job.entry_id for job in jobs],
        "run_at": [job.run_at for job in jobs],
        "scheduled_for": [job.scheduled_for for job in jobs],
    }
    return [Due(Ticket(str(row.id), 0, 0), row.run_at, row.lane) for row in conn.execute(INSERT, parameters)]
