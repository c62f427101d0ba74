"""Accepting a job: one INSERT, commit, then the ready stream or the scheduled set."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

import structlog
from sqlalchemy import Connection, Engine, text

from app.callback import COLUMNS, DEFAULT_ATTEMPTS, DEFAULT_TIMEOUT_SECONDS, values_of
from app.clock import boottime
from app.crash_points import reach
from app.database import autocommit, is_connection_lost, prepared, sqlstate
from app.errors import InvalidRequest, invalid
from app.ids import uuid7
from app.jobs.lanes import lane
from app.jobs.requests import JobRequest, Submitted
from app.queues import ensure
from app.stores import Stores
from app.stream import Due, Ticket

logger = structlog.get_logger(__name__)

# What a job that does not say has from its queue, or else from design.md.
_GIVEN = {
    "max_attempts": f"coalesce(CAST(:max_attempts AS int), queue.default_max_attempts, {DEFAULT_ATTEMPTS})",
    "timeout_seconds": f"coalesce(CAST(:timeout_seconds AS float8), queue.default_timeout_seconds, {DEFAULT_TIMEOUT_SECONDS})",
}
INSERT = text(f"""
    WITH clock AS MATERIALIZED (SELECT punctual_now() AS now),
    queue AS (SELECT * FROM queues WHERE client_id = :client_id AND name = :queue),
    asked AS (
      SELECT now, coalesce(CAST(:run_at AS timestamptz), now + make_interval(secs => coalesce(:delay_seconds, 0))) AS run_at
      FROM clock
    )
    INSERT INTO jobs AS j (id, client_id, queue_id, type, {", ".join(COLUMNS)}, payload_bytes, status, run_at, scheduled_for,
                           first_due_at, expires_at, dedupe_until, idempotency_key, request_fingerprint, traceparent, created_at, updated_at)
    SELECT :id, :client_id, queue.id, :type, {", ".join(_GIVEN.get(name, f":{name}") for name in COLUMNS)}, :payload_bytes,
           CASE WHEN run_at <= now THEN 'pending' ELSE 'scheduled' END, run_at, run_at, greatest(run_at, now),
           CAST(:expires_at AS timestamptz), now + make_interval(secs => CAST(:dedupe_window_seconds AS float8)),
           :idempotency_key, :request_fingerprint, :traceparent, now, now
    FROM asked LEFT JOIN queue ON true
    WHERE coalesce(CAST(:expires_at AS timestamptz) > greatest(run_at, now), true)
    ON CONFLICT DO NOTHING
    RETURNING id, status, run_at, created_at, {lane("j")} AS lane
""")
BY_KEY = text(f"""
    SELECT id, status, run_at, request_fingerprint, created_at, {lane("j")} AS lane FROM jobs j WHERE client_id = :client_id AND idempotency_key = :idempotency_key
""")
RELEASE_KEY = text("""
    UPDATE jobs SET idempotency_key = NULL, updated_at = punctual_now()
    WHERE client_id = :client_id AND idempotency_key = :idempotency_key AND dedupe_until <= punctual_now()
""")
# Asked only about a job that was not made, and was not found either.
IS_PAST = text("""
    SELECT CAST(:expires_at AS timestamptz) <= greatest(coalesce(CAST(:run_at AS timestamptz), now + make_interval(secs => coalesce(:delay_seconds, 0))), now)
    FROM (SELECT punctual_now() AS now) AS clock
""")
BY_ID = text(f"SELECT id, status, run_at, created_at, {lane('j')} AS lane FROM jobs j WHERE id = :id")
# How often a key may be found taken and then pruned before we give up (C9).
KEY_TRIES = 3
NOT_NULL = "23502"


def parameters(request: JobRequest, job_id: UUID) -> dict[str, Any]:
    """The INSERT's parameters for one request."""
    return {
        "id": job_id,
        "client_id": request.client_id,
        "queue": request.queue,
        "type": request.type,
        **values_of(request),
        "payload_bytes": request.payload_bytes,
        "run_at": request.run_at,
        "delay_seconds": request.delay_seconds,
        "idempotency_key": request.idempotency_key,
        "request_fingerprint": request.request_fingerprint,
        "expires_at": request.expires_at,
        "dedupe_window_seconds": request.dedupe_window_seconds,
        "traceparent": request.traceparent,
    }


def submit(stores: Stores, request: JobRequest) -> Submitted:
    """Accepts a job for good.

    1. INSERT and commit, one statement. A crash before it: nothing was accepted. The id was made before, so that the
       statement can be repeated when the connection is lost at COMMIT (C7).
    2. Add to Redis, if the job is due within the horizon. A crash or an error here: the loader (C13) or the rescuer (C16)
       brings the job in.
    Raises InvalidRequest for a new job that would expire before it could begin; what was accepted before is found all the same.
    """
    job_id, asked_at = uuid7(), boottime()
    try:
        found, created_at, its_lane = _insert(stores.engine, request, job_id)
    except Exception as error:
        if sqlstate(error) == NOT_NULL:
            _make_queue(stores.engine, request)
        elif not is_connection_lost(error):
            raise
        found, created_at, its_lane = _insert(stores.engine, request, job_id)
    if found.outcome == "created":
        reach("submitted")
        enqueue(stores, [Due(Ticket(str(found.job_id), 0, 0), found.run_at, its_lane)], since(asked_at, created_at))
    return found


def _make_queue(engine: Engine, request: JobRequest) -> None:
    with autocommit(engine) as conn:
        ensure(conn, request.client_id, request.queue)


def since(asked_at: float, told_at: datetime) -> datetime:
    """PostgreSQL's time by now, or a little later: a commit may take long, and the horizon is measured after it (C13).

    `told_at` is from a statement that was begun at `asked_at` (boottime). What is added a little early is not claimed (C2).
    """
    return told_at + timedelta(seconds=boottime() - asked_at)


def enqueue(stores: Stores, jobs: Sequence[Due], now: datetime) -> None:
    """Adds jobs to Redis after their commit; while Redis is away they are left to the loader and the rescuer."""
    stores.bypass.call("enqueue", lambda: stores.stream.add(jobs, now), 0)


def _insert(engine: Engine, request: JobRequest, job_id: UUID) -> tuple[Submitted, datetime, str]:
    """What became of the request, when its job was made, and its lane. An IntegrityError NOT_NULL: there is no such queue."""
    with prepared(engine) as conn:
        for _ in range(KEY_TRIES):
            row = conn.execute(INSERT, parameters(request, job_id)).one_or_none()
            if row is None and request.idempotency_key is None:
                # Only this request's own id can have stood in the way: an earlier try was committed after all.
                row = conn.execute(BY_ID, {"id": job_id}).one_or_none()
            if row is not None:
                return Submitted(row.id, row.status, row.run_at, "created"), row.created_at, row.lane
            key = {"client_id": request.client_id, "idempotency_key": request.idempotency_key}
            if conn.execute(RELEASE_KEY, key).rowcount:
                continue
            found = _find(conn, request, job_id)
            if found is not None:
                return found
            if (refusal := expired_before(conn, request)) is not None:
                raise refusal
    raise RuntimeError("the idempotency key was found taken and free again three times: try again")


def expired_before(conn: Connection, request: JobRequest) -> InvalidRequest | None:
    """Why a job that was neither made nor found cannot be made: it would expire before it could begin."""
    asked = {"expires_at": request.expires_at, "run_at": request.run_at, "delay_seconds": request.delay_seconds}
    if request.expires_at is None or not conn.execute(IS_PAST, asked).scalar_one():
        return None
    return invalid("expires_at", "it must be later than the time the job is due, and than now.")


def _find(conn: Connection, request: JobRequest, job_id: UUID) -> tuple[Submitted, datetime, str] | None:
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
    return Submitted(row.id, row.status, row.run_at, outcome), row.created_at, row.lane
