"""Accepting many jobs: one INSERT for all of them, commit, then one call to Redis."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Connection, Engine, Row, text

from app.callback import COLUMNS, DEFAULT_ATTEMPTS, DEFAULT_TIMEOUT_SECONDS, values_of
from app.clock import boottime
from app.crash_points import reach
from app.database import is_connection_lost, prepared
from app.errors import InvalidRequest
from app.ids import uuid7
from app.jobs.lanes import lane
from app.jobs.requests import JobRequest, Submitted
from app.jobs.submit import KEY_TRIES, enqueue, expired_before, since
from app.queues import ensure
from app.stores import Stores
from app.stream import Due, Ticket

# What each column is sent as; the others are texts. A list within a list cannot be sent, so tags go as JSON.
_KINDS = {"timeout_seconds": "float8", "max_attempts": "int", "priority": "int"}
_SENT = {
    "id": "uuid",
    "queue": "text",
    "type": "text",
    **{name: _KINDS.get(name, "text") for name in COLUMNS},
    "payload_bytes": "int",
    "run_at": "timestamptz",
    "delay_seconds": "float8",
    "idempotency_key": "text",
    "request_fingerprint": "bytea",
    "expires_at": "timestamptz",
    "dedupe_window_seconds": "float8",
    "traceparent": "text",
}
_STORED = {
    "max_attempts": f"coalesce(u.max_attempts, q.default_max_attempts, {DEFAULT_ATTEMPTS})",
    "timeout_seconds": f"coalesce(u.timeout_seconds, q.default_timeout_seconds, {DEFAULT_TIMEOUT_SECONDS})",
    "tags": "ARRAY(SELECT jsonb_array_elements_text(CAST(u.tags AS jsonb)))",
}
# In the order of keys (C9), so that two batches never wait for each other; of two with one key, the first makes the job.
INSERT = text(f"""
    WITH clock AS MATERIALIZED (SELECT punctual_now() AS now),
    asked AS (
      SELECT u.*, now, coalesce(u.run_at, now + make_interval(secs => coalesce(u.delay_seconds, 0))) AS due_at
      FROM unnest({", ".join(f"CAST(:{name} AS {kind}[])" for name, kind in _SENT.items())}) 
           WITH ORDINALITY AS u({", ".join(_SENT)}, place) CROSS JOIN clock
    )
    INSERT INTO jobs AS j (id, client_id, queue_id, type, {", ".join(COLUMNS)}, payload_bytes, status, run_at, scheduled_for, first_due_at,
                           expires_at, dedupe_until, idempotency_key, request_fingerprint, traceparent, created_at, updated_at)
    SELECT u.id, q.client_id, q.id, u.type, {", ".join(_STORED.get(name, f"u.{name}") for name in COLUMNS)}, u.payload_bytes,
           CASE WHEN u.due_at <= u.now THEN 'pending' ELSE 'scheduled' END, u.due_at, u.due_at, greatest(u.due_at, u.now),
           u.expires_at, u.now + make_interval(secs => u.dedupe_window_seconds), u.idempotency_key, u.request_fingerprint, u.traceparent, u.now, u.now
    FROM asked u JOIN queues q ON q.client_id = :client_id AND q.name = u.queue
    WHERE coalesce(u.expires_at > greatest(u.due_at, u.now), true)
    ORDER BY u.idempotency_key, u.place
    ON CONFLICT DO NOTHING
    RETURNING id, status, run_at, created_at, {lane("j")} AS lane
""")
RELEASE_KEYS = text("""
    UPDATE jobs SET idempotency_key = NULL, updated_at = punctual_now()
    WHERE client_id = :client_id AND idempotency_key = ANY(CAST(:keys AS text[])) AND dedupe_until <= punctual_now()
    RETURNING id
""")
FIND = text(f"""
    SELECT id, status, run_at, created_at, idempotency_key, request_fingerprint, {lane("j")} AS lane FROM jobs j
    WHERE client_id = :client_id AND (idempotency_key = ANY(CAST(:keys AS text[])) OR id = ANY(CAST(:ids AS uuid[])))
""")


def submit_batch(stores: Stores, requests: Sequence[JobRequest]) -> list[Submitted | InvalidRequest]:
    """Accepts jobs of one client for good; one result for each, in their order.

    As `submit` does one: ids are made before, so that the statement can be repeated when the connection is lost at COMMIT (C7).
    Of two with the same key, the first makes the job. One that would expire before it could begin is an InvalidRequest in its place.
    """
    if not requests:
        return []
    asked_at, ids = boottime(), [uuid7() for _ in requests]
    try:
        found, made, now = _insert(stores.engine, requests, ids)
    except Exception as error:
        if not is_connection_lost(error):
            raise
        found, made, now = _insert(stores.engine, requests, ids)
    if made and now is not None:
        reach("submitted")
        enqueue(stores, made, since(asked_at, now))
    return found


def _insert(
    engine: Engine, requests: Sequence[JobRequest], ids: Sequence[UUID]
) -> tuple[list[Submitted | InvalidRequest], list[Due], datetime | None]:
    client_id, made, now = requests[0].client_id, list[Due](), None
    settled: dict[int, Submitted | InvalidRequest] = {}
    with prepared(engine) as conn:
        for name in dict.fromkeys(request.queue for request in requests):
            ensure(conn, client_id, name)
        for _ in range(KEY_TRIES):
            left = [place for place in range(len(requests)) if place not in settled]
            if not left:
                break
            rows = {row.id: row for row in _insert_some(conn, client_id, requests, ids, left)}
            keys = [key for place in left if ids[place] not in rows and (key := requests[place].idempotency_key)]
            if keys and conn.execute(RELEASE_KEYS, {"client_id": client_id, "keys": keys}).all():
                keys = []
            missing = {ids[place] for place in left if ids[place] not in rows}
            there = (
                conn.execute(FIND, {"client_id": client_id, "keys": keys, "ids": list(missing)}).all()
                if missing
                else []
            )
            by_key = {row.idempotency_key: row for row in there}
            # By its own id: an earlier try was committed after all.
            rows |= {row.id: row for row in there if row.id in missing}
            for place in left:
                row = rows.get(ids[place])
                if row is not None:
                    settled[place] = Submitted(row.id, row.status, row.run_at, "created")
                    made.append(Due(Ticket(str(row.id), 0, 0), row.run_at, row.lane))
                    now = row.created_at
                elif (other := by_key.get(requests[place].idempotency_key)) is not None:
                    settled[place] = _known(other, requests[place])
                elif (refusal := expired_before(conn, requests[place])) is not None:
                    settled[place] = refusal
    if len(settled) < len(requests):
        raise RuntimeError("an idempotency key was found taken and free again three times: try again")
    return [settled[place] for place in range(len(requests))], made, now


def _insert_some(
    conn: Connection, client_id: int, requests: Sequence[JobRequest], ids: Sequence[UUID], places: Sequence[int]
) -> Sequence[Row[Any]]:
    rows = [_values(requests[place], ids[place]) for place in places]
    return conn.execute(INSERT, {"client_id": client_id, **{name: [row[name] for row in rows] for name in _SENT}}).all()


def _values(request: JobRequest, job_id: UUID) -> dict[str, Any]:
    named = {name: getattr(request, name) for name in _SENT if name != "id"}
    return {**named, **values_of(request), "id": job_id, "tags": json.dumps(request.tags)}


def _known(row: Row[Any], request: JobRequest) -> Submitted:
    outcome: Literal["replayed", "conflict"] = "conflict"
    if row.request_fingerprint == request.request_fingerprint:
        outcome = "replayed"
    return Submitted(row.id, row.status, row.run_at, outcome)
