"""Claiming: from a batch of tickets to running jobs under a worker's lease, in one statement."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import Connection, Row, RowMapping, text
from sqlalchemy.exc import SQLAlchemyError

from app.attempts import Claim
from app.callback import JSON_TYPE, headers_of, statuses_of
from app.database import is_about_a_row
from app.ids import uuid7
from app.jobs import follow_ups
from app.jobs.lanes import lane
from app.retry_policy import policy_of
from app.stream import Due, Ticket

logger = structlog.get_logger(__name__)

LEASE_SECONDS = 60
EXTEND_WITHIN_SECONDS = 30
# A batch holds at most this much payload, whatever the number of its jobs; the first job always fits.
MAX_BATCH_BYTES = 8 << 20

# Without the payload: who only judges an attempt has no use for it.
CLAIM_COLUMNS = f"""
    j.id, j.client_id, j.type, j.callback_url, j.queue_generation, j.attempts, j.max_attempts,
    j.attempts_before + j.attempts AS number, j.run_at, j.first_due_at, j.method, j.headers, j.content_type,
    j.timeout_seconds, j.success_statuses, j.retry, (j.on_success_url IS NOT NULL OR j.on_failure_url IS NOT NULL) AS is_followed,
    j.queue_id, c.name AS client_name, q.name AS queue_name, j.traceparent, {lane("j")} AS lane, j.callback_host, q.circuit_breaker, q.is_limited, q.rate_limit IS NOT NULL AS is_rated,
    c.signing_secret,
    CASE WHEN c.previous_secret_expires_at > clock.now THEN c.previous_signing_secret END AS previous_signing_secret, clock.now
"""
# Whatever PostgreSQL believes of the table, each row is found by its id: a job at a time, in id order (C6). As a plain join the planner
# reads the whole backlog for each batch; and status and run_at are written so that no index of what waits can be taken for the quicker.
_CLAIM = f"""
    WITH clock AS MATERIALIZED (SELECT punctual_now() AS now),
    asked AS MATERIALIZED (
      SELECT * FROM unnest(CAST(:ids AS uuid[]), CAST(:generations AS int[]), CAST(:attempts AS int[])) AS a(id, generation, attempts)
      WHERE EXISTS (SELECT FROM processes p WHERE p.id = :worker AND p.lost_at IS NULL AND p.stopped_at IS NULL) ORDER BY id
    ),
    free AS MATERIALIZED (
      SELECT f.id, f.payload_bytes FROM asked a CROSS JOIN clock CROSS JOIN LATERAL (
        SELECT j.id, j.payload_bytes FROM jobs j
        WHERE j.id = a.id AND j.status || '' IN ('pending', 'scheduled') AND j.queue_generation = a.generation AND j.attempts = a.attempts
          AND j.attempts < j.max_attempts AND clock.now - j.run_at >= interval '0'
          AND (j.expires_at IS NULL OR j.expires_at > clock.now OR j.attempts > 0) {{which}}
          AND NOT EXISTS (SELECT FROM circuits o WHERE o.client_id = j.client_id AND o.host = j.callback_host AND o.opened_at IS NOT NULL
                            AND o.probe_job_id IS DISTINCT FROM j.id)
        FOR NO KEY UPDATE SKIP LOCKED
      ) f
    ),
    picked AS (
      SELECT id FROM (
        SELECT id, row_number() OVER w AS place, sum(payload_bytes) OVER w AS total FROM free WINDOW w AS (ORDER BY id)
      ) sized WHERE place = 1 OR total <= :max_bytes
    ),
    claimed AS (
      UPDATE jobs j SET status = 'running', attempts = j.attempts + 1, worker = :worker, started_at = clock.now,
                        lease_expires_at = clock.now + make_interval(secs => {LEASE_SECONDS}), updated_at = clock.now
      FROM clients c, queues q, clock WHERE j.id = ANY(ARRAY(SELECT id FROM picked)) AND c.id = j.client_id AND q.id = j.queue_id
      RETURNING {CLAIM_COLUMNS}, j.payload
    )
    SELECT free.id AS free_id, claimed.* FROM free LEFT JOIN claimed ON claimed.id = free.id ORDER BY free.id
"""
# Jobs of limited queues are claimed under the lock of their queue: see claim_limited.
CLAIM = text(_CLAIM.format(which="AND EXISTS (SELECT FROM queues q WHERE q.id = j.queue_id AND NOT q.is_limited)"))
CLAIM_ANY = text(_CLAIM.format(which=""))
STILL_WAITING = text(f"""
    SELECT j.id, j.queue_generation, j.attempts, j.run_at, {lane("j")} AS lane,
           q.is_limited AND j.run_at <= punctual_now() AS is_limited, j.run_at <= punctual_now() AS is_due,
           (SELECT o.retry_at FROM circuits o WHERE o.client_id = j.client_id AND o.host = j.callback_host
              AND o.opened_at IS NOT NULL AND o.probe_job_id IS DISTINCT FROM j.id) AS held_until
    FROM unnest(CAST(:ids AS uuid[]), CAST(:generations AS int[]), CAST(:attempts AS int[])) AS a(id, generation, attempts)
    CROSS JOIN LATERAL (SELECT * FROM jobs WHERE id = a.id OFFSET 0) j JOIN queues q ON q.id = j.queue_id
    WHERE j.status IN ('pending', 'scheduled') AND j.queue_generation = a.generation AND j.attempts = a.attempts
      AND j.attempts < j.max_attempts
""")
TAKE_UP = text(f"""
    WITH clock AS MATERIALIZED (SELECT punctual_now() AS now)
    SELECT {CLAIM_COLUMNS}, j.payload FROM jobs j JOIN clients c ON c.id = j.client_id JOIN queues q ON q.id = j.queue_id
    CROSS JOIN clock
    WHERE j.worker = :worker AND j.status = 'running' AND NOT j.id = ANY(CAST(:held AS uuid[]))
    ORDER BY j.id LIMIT :most
""")
EXTEND = text(f"""
    UPDATE jobs SET lease_expires_at = punctual_now() + make_interval(secs => {LEASE_SECONDS})
    WHERE id IN (SELECT id FROM jobs WHERE worker = :worker AND status = 'running' AND id = ANY(CAST(:held AS uuid[]))
                   AND lease_expires_at < (SELECT punctual_now()) + make_interval(secs => {EXTEND_WITHIN_SECONDS})
                 ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)
""")
_FOLLOWED = follow_ups.cte(
    status_code="j.last_status_code",
    error="c.last_error",
    excerpt="NULL",
    source="CROSS JOIN (SELECT CAST(:follow_id AS uuid) AS follow_id) made",
)
BURY_UNCLAIMABLE = text(f"""
    WITH clock AS MATERIALIZED (SELECT punctual_now() AS now),
    changed AS (
      UPDATE jobs SET status = 'dead', finished_at = clock.now, updated_at = clock.now,
                      last_error = :error, last_error_class = 'unclaimable'
      FROM clock
      WHERE id = :id AND status IN ('pending', 'scheduled') AND queue_generation = :generation AND attempts = :attempts
      RETURNING id, client_id, status, attempts, last_error
    ), {_FOLLOWED}
    SELECT count(*) FROM changed
""")


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a batch came to, and PostgreSQL's time of the claim (None when nothing was claimed).

    `claims` are now held. `put_back` waits, and is locked this moment or not due yet. `beyond` was free, but had no room in
    the batch's bytes: claim it next. `limited` belongs to queues with limits: see claim_limited.
    The host of what is `held` keeps failing: it is due when the circuit may be tried.
    """

    claims: list[Claim]
    put_back: list[Due]
    beyond: list[Ticket]
    limited: list[Due]
    held: list[Due]
    now: datetime | None


def claim(conn: Connection, worker: UUID, tickets: Iterable[Ticket]) -> Claimed:
    """Claims what may be claimed (C4). May leave `pending` and `scheduled`; attempts + 1, lease, worker.

    Locked rows are skipped, never waited for. What was not claimed is looked up once: if it still stands as its ticket says
    it is to be put back; all else is stale and may be dropped.
    A batch that fails for what one of its rows holds is halved until that row stands alone (C6), which is buried with the
    error.
    """
    wanted = list(dict.fromkeys(tickets))
    try:
        return _claim(conn, worker, wanted)
    except SQLAlchemyError as error:
        if not is_about_a_row(error):
            raise
        if len(wanted) == 1:
            bury_unclaimable(conn, wanted[0], error)
            return Claimed([], [], [], [], [], None)
    half = len(wanted) // 2
    first, second = claim(conn, worker, wanted[:half]), claim(conn, worker, wanted[half:])
    return Claimed(
        first.claims + second.claims,
        first.put_back + second.put_back,
        first.beyond + second.beyond,
        first.limited + second.limited,
        first.held + second.held,
        second.now or first.now,
    )


def _claim(conn: Connection, worker: UUID, wanted: Sequence[Ticket]) -> Claimed:
    if not wanted:
        return Claimed([], [], [], [], [], None)
    parameters = {**arrays(wanted), "worker": worker, "max_bytes": MAX_BATCH_BYTES}
    rows = conn.execute(CLAIM, parameters).mappings().all()
    claims = [to_claim(row) for row in rows if row["id"] is not None]
    settled = {str(row["free_id"]) for row in rows}
    held = {str(claim.job_id) for claim in claims}
    left = [ticket for ticket in wanted if ticket.job_id not in held]
    rows_left = conn.execute(STILL_WAITING, arrays(left)).all() if left else []
    is_held = {row.id: row.is_due and row.held_until is not None for row in rows_left}
    waiting = [_due(row) for row in rows_left if not row.is_limited and not is_held[row.id]]
    return Claimed(
        claims,
        [job for job in waiting if job.ticket.job_id not in settled],
        [job.ticket for job in waiting if job.ticket.job_id in settled],
        _in_order([_due(row) for row in rows_left if row.is_limited and not is_held[row.id]], wanted),
        [replace(_due(row), run_at=row.held_until) for row in rows_left if is_held[row.id]],
        claims[0].claimed_at if claims else None,
    )


def bury_unclaimable(conn: Connection, ticket: Ticket, error: SQLAlchemyError) -> None:
    """Ends a job that PostgreSQL refuses to let run. May leave `pending` and `scheduled`. If even this fails, the entry is dropped, and the rescuer brings it back for another try."""
    logger.error("job_not_claimable", job_id=ticket.job_id, error=str(error).splitlines()[0])
    reason = str(getattr(error, "orig", None) or error).splitlines()[0]
    try:
        conn.execute(
            BURY_UNCLAIMABLE,
            {
                "id": ticket.job_id,
                "follow_id": uuid7(),
                "generation": ticket.queue_generation,
                "attempts": ticket.attempts,
                "error": f"The job could not be claimed: {reason}",
            },
        )
    except SQLAlchemyError:
        logger.exception("job_not_buried", job_id=ticket.job_id)


def take_up(conn: Connection, worker: UUID, held: Collection[UUID], most: int) -> list[Claim]:
    """Rows that run under this worker and are not in its hands: their claim was committed, its answer was lost (C7)."""
    rows = conn.execute(TAKE_UP, {"worker": worker, "held": list(held), "most": most}).mappings()
    return [to_claim(row) for row in rows]


def extend_leases(conn: Connection, worker: UUID, held: Sequence[UUID]) -> None:
    """Moves on leases of held jobs that would end within 30 s (C17)."""
    if held:
        conn.execute(EXTEND, {"worker": worker, "held": list(held)})


def to_claim(row: RowMapping) -> Claim:
    secrets = (row["signing_secret"], row["previous_signing_secret"])
    payload: str | None = row.get("payload")
    return Claim(
        job_id=row["id"],
        client_id=row["client_id"],
        type=row["type"],
        body=None if payload is None else payload.encode(),
        callback_url=row["callback_url"],
        queue_generation=row["queue_generation"],
        attempt=row["attempts"],
        max_attempts=row["max_attempts"],
        number=row["number"],
        due_at=row["run_at"],
        claimed_at=row["now"],
        first_due_at=row["first_due_at"],
        signing_secrets=tuple(secret for secret in secrets if secret),
        method=row["method"],
        content_type=row["content_type"] or JSON_TYPE,
        headers=headers_of(row["headers"]),
        timeout_seconds=row["timeout_seconds"],
        success_statuses=statuses_of(row["success_statuses"]),
        policy=policy_of(row["retry"]),
        is_followed=row["is_followed"],
        queue_id=row["queue_id"],
        client_name=row["client_name"],
        queue_name=row["queue_name"],
        lane=row["lane"],
        is_limited=row["is_limited"],
        is_rated=row["is_rated"],
        callback_host=row["callback_host"],
        traceparent=row["traceparent"],
        circuit_breaker=row["circuit_breaker"],
    )


def _due(row: Row[Any]) -> Due:
    return Due(Ticket(str(row.id), row.queue_generation, row.attempts), row.run_at, row.lane)


def _in_order(jobs: list[Due], wanted: Sequence[Ticket]) -> list[Due]:
    """As they were asked for, which is as their queues let them in."""
    places = {ticket: place for place, ticket in enumerate(wanted)}
    return sorted(jobs, key=lambda job: places[job.ticket])


def arrays(tickets: Collection[Ticket]) -> dict[str, list[Any]]:
    return {
        "ids": [ticket.job_id for ticket in tickets],
        "generations": [ticket.queue_generation for ticket in tickets],
        "attempts": [ticket.attempts for ticket in tickets],
    }
