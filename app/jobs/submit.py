"""Accepting a job: one INSERT, commit, then the ready stream or the scheduled set."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

import structlog
from sqlalchemy import Connection, Engine, text

from app.callback import COLUMNS, values_of
from app.clock import boottime
from app.database import autocommit, is_connection_lost
from app.ids import uuid7
from app.jobs.requests import JobRequest, Submitted
from app.stores import Stores
from app.stream import Due, Ticket

logger = structlog.get_logger(__name__)

INSERT = text(f"""
    WITH clock AS MATERIALIZED (SELECT punctual_now() AS now),
    asked AS (
      SELECT now, coalesce(CAST(:run_at AS timestamptz), now + make_interval(secs => coalesce(:delay_seconds, 0))) AS run_at
      FROM clock
    )
    INSERT INTO jobs (id, client_id, type, {", ".join(COLUMNS)}, payload_bytes, status, run_at, scheduled_for, first_due_at,
                      idempotency_key, request_fingerprint, created_at, updated_at)
    SELECT :id, :client_id, :type, {", ".join(f":{name}" for name in COLUMNS)}, :payload_bytes,
           CASE WHEN run_at <= now THEN 'pending' ELSE 'scheduled' END, run_at, run_at, greatest(run_at, now),
           :idempotency_key, :request_fingerprint, now, now
    FROM asked
    ON CONFLICT DO NOTHING
    RETURNING id, status, run_at, created_at
""")
BY_KEY = text("""
    SELECT id, status, run_at, request_fingerprint, created_at FROM jobs WHERE client_id = :client_id AND idempotency_key = :idempotency_key
""")
BY_ID = text("SELECT id, status, run_at, created_at FROM jobs WHERE id = :id")
# How often a key may be found taken and then pruned before we give up (C9).
KEY_TRIES = 3


def parameters(request: JobRequest, job_id: UUID) -> dict[str, Any]:
    """The INSERT's parameters for one request."""
    return {
        "id": job_id,
        "client_id": request.client_id,
        "type": request.type,
        **values_of(request),
        "payload_bytes": request.payload_bytes,
        "run_at": request.run_at,
        "delay_seconds": request.delay_seconds,
        "idempotency_key": request.idempotency_key,
        "request_fingerprint": request.request_fingerprint,
    }


def submit(stores: Stores, request: JobRequest) -> Submitted:
    """Accepts a job for good.

    1. INSERT and commit, one statement. A crash before it: nothing was accepted. The id was made before, so that the
       statement can be repeated when the connection is lost at COMMIT (C7).
    2. Add to Redis, if the job is due within the horizon. A crash or an error here: the loader (C13) or the rescuer (C16)
       brings the job in.
    """
    job_id, asked_at = uuid7(), boottime()
    try:
        found, created_at = _insert(stores.engine, request, job_id)
    except Exception as error:
        if not is_connection_lost(error):
            raise
        found, created_at = _insert(stores.engine, request, job_id)
    if found.outcome == "created":
        enqueue(stores, [Due(Ticket(str(found.job_id), 0, 0), found.run_at)], since(asked_at, created_at))
    return found


def since(asked_at: float, told_at: datetime) -> datetime:
    """PostgreSQL's time by now, or a little later: a commit may take long, and the horizon is measured after it (C13).

    `told_at` is from a statement that was begun at `asked_at` (boottime). What is added a little early is not claimed (C2).
    """
    return told_at + timedelta(seconds=boottime() - asked_at)


def enqueue(stores: Stores, jobs: Sequence[Due], now: datetime) -> None:
    """Adds jobs to Redis after their commit; while Redis is away they are left to the loader and the rescuer."""
    stores.bypass.call("enqueue", lambda: stores.stream.add(jobs, now), 0)


def _insert(engine: Engine, request: JobRequest, job_id: UUID) -> tuple[Submitted, datetime]:
    """What became of the request, and when its job was made."""
    with autocommit(engine) as conn:
        for _ in range(KEY_TRIES):
            row = conn.execute(INSERT, parameters(request, job_id)).one_or_none()
            if row is None and request.idempotency_key is None:
                # Only this request's own id can have stood in the way: an earlier try was committed after all.
                row = conn.execute(BY_ID, {"id": job_id}).one()
            if row is not None:
                return Submitted(row.id, row.status, row.run_at, "created"), row.created_at
            found = _find(conn, request, job_id)
            if found is not None:
                return found
    raise RuntimeError("the idempotency key was found taken and free again three times: try again")


def _find(conn: Connection, request: JobRequest, job_id: UUID) -> tuple[Submitted, datetime] | None:
    """The job that holds the key, by a statement of its own: the INSERT's snapshot cannot see it (C9)."""
    row = conn.execute(
        BY_KEY, {"client_id": request.client_id, "idempotency_key": request.idempotency_key}
    ).one_or_none()
    if row is None:
        return None
    outcome: Literal["created", "replayed", "conflict"] = "conflict"
    if row.id == job_id:
        outcome = "created"
    elif row.request_fingerprint == request.request_fingerprint:
        outcome = "replayed"
    return Submitted(row.id, row.status, row.run_at, outcome), row.created_at
