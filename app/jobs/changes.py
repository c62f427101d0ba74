"""What a person or program may do to a job: cancel it, retry it, run it now, ask a running one to end."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection, text

from app.clock import boottime
from app.database import autocommit
from app.jobs.lanes import lane
from app.jobs.requests import Changed
from app.jobs.submit import enqueue, since
from app.stores import Stores
from app.stream import Due, Ticket

CANCEL = text("""
    UPDATE jobs SET status = 'cancelled', finished_at = punctual_now(), updated_at = punctual_now()
    WHERE id = :id AND (CAST(:client_id AS bigint) IS NULL OR client_id = :client_id) AND status IN ('pending', 'scheduled')
    RETURNING status
""")
RETRY = text(f"""
    WITH clock AS MATERIALIZED (SELECT punctual_now() AS now)
    UPDATE jobs SET status = 'scheduled', run_at = now, first_due_at = now, attempts = 0, attempts_before = attempts_before + attempts,
                    queue_generation = queue_generation + 1, finished_at = NULL, cancel_requested_at = NULL, updated_at = now
    FROM clock
    WHERE id = :id AND (CAST(:client_id AS bigint) IS NULL OR client_id = :client_id) AND status = 'dead'
    RETURNING status, run_at, queue_generation, now, {lane("jobs")} AS lane
""")
RUN_NOW = text(f"""
    WITH clock AS MATERIALIZED (SELECT punctual_now() AS now)
    UPDATE jobs SET run_at = least(run_at, now), first_due_at = least(first_due_at, now), updated_at = now
    FROM clock
    WHERE id = :id AND (CAST(:client_id AS bigint) IS NULL OR client_id = :client_id) AND status = 'scheduled'
    RETURNING status, run_at, queue_generation, attempts, now, {lane("jobs")} AS lane
""")
REQUEST_CANCEL = text("""
    UPDATE jobs SET cancel_requested_at = coalesce(cancel_requested_at, punctual_now()), updated_at = punctual_now()
    WHERE id = :id AND status = 'running' RETURNING status
""")
CANCEL_FOR_NEXT = text("""
    WITH held AS MATERIALIZED (
      SELECT id FROM jobs WHERE id = ANY(CAST(:ids AS uuid[])) AND status IN ('pending', 'scheduled', 'running')
      ORDER BY id FOR NO KEY UPDATE
    )
    UPDATE jobs j SET status = CASE WHEN status = 'running' THEN status ELSE 'cancelled' END,
                      finished_at = CASE WHEN status = 'running' THEN NULL ELSE punctual_now() END,
                      cancel_requested_at = coalesce(cancel_requested_at, punctual_now()), updated_at = punctual_now()
    FROM held WHERE j.id = held.id AND status IN ('pending', 'scheduled', 'running')
""")
STATUS = text(
    "SELECT status FROM jobs WHERE id = :id AND (CAST(:client_id AS bigint) IS NULL OR client_id = :client_id)"
)


def cancel(stores: Stores, client_id: int | None, job_id: UUID) -> Changed:
    """Cancels a job that waits. May leave `pending` and `scheduled`; its entry in Redis goes stale and is dropped at claim.

    `client_id` None stands for a user of the dashboard, who sees every client's jobs.
    """
    with autocommit(stores.engine) as conn:
        row = conn.execute(CANCEL, {"id": job_id, "client_id": client_id}).one_or_none()
        return Changed("changed", row.status) if row else _unchanged(conn, client_id, job_id)


def retry(stores: Stores, client_id: int | None, job_id: UUID) -> Changed:
    """Gives a dead job its whole budget again, due now. May leave `dead` only; the new generation fences late results."""
    asked_at = boottime()
    with autocommit(stores.engine) as conn:
        row = conn.execute(RETRY, {"id": job_id, "client_id": client_id}).one_or_none()
        if row is None:
            return _unchanged(conn, client_id, job_id)
    enqueue(stores, [Due(Ticket(str(job_id), row.queue_generation, 0), row.run_at, row.lane)], since(asked_at, row.now))
    return Changed("changed", row.status)


def run_now(stores: Stores, client_id: int | None, job_id: UUID) -> Changed:
    """Makes a job due that is scheduled, be it for its first attempt or for the next one. Stays `scheduled`.

    A `pending` one is due as it is: unchanged. Generation and attempts are kept, so that the entry with the later time, still
    in Redis, goes stale with the claim.
    """
    asked_at = boottime()
    with autocommit(stores.engine) as conn:
        row = conn.execute(RUN_NOW, {"id": job_id, "client_id": client_id}).one_or_none()
        if row is None:
            found = _unchanged(conn, client_id, job_id)
            return Changed("unchanged", found.status) if found.status == "pending" else found
    due = Due(Ticket(str(job_id), row.queue_generation, row.attempts), row.run_at, row.lane)
    enqueue(stores, [due], since(asked_at, row.now))
    return Changed("changed", row.status)


def request_cancel(conn: Connection, job_id: UUID) -> bool:
    """Marks a running job: its attempt ends as it ends, and instead of a retry it becomes cancelled (C11)."""
    return conn.execute(REQUEST_CANCEL, {"id": job_id}).one_or_none() is not None


def cancel_for_next(conn: Connection, *job_ids: UUID) -> None:
    """Makes way for the next jobs of entries: cancels those that wait, marks those that run (C11)."""
    conn.execute(CANCEL_FOR_NEXT, {"ids": list(job_ids)})


def _unchanged(conn: Connection, client_id: int | None, job_id: UUID) -> Changed:
    row = conn.execute(STATUS, {"id": job_id, "client_id": client_id}).one_or_none()
    return Changed("refused", row.status) if row else Changed("missing")
