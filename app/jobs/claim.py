"""Claiming: from a batch of tickets to running jobs under a worker's lease, in one statement."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, RowMapping, text

from app.attempts import Claim
from app.stream import Due, Ticket

LEASE_SECONDS = 60
EXTEND_WITHIN_SECONDS = 30
# A batch holds at most this much payload, whatever the number of its jobs; the first job always fits.
MAX_BATCH_BYTES = 8 << 20

CLAIM_COLUMNS = """
    j.id, j.client_id, j.type, j.payload, j.callback_url, j.queue_generation, j.attempts, j.max_attempts,
    j.attempts_before + j.attempts AS number, j.run_at, j.scheduled_for, c.signing_secret,
    CASE WHEN c.previous_secret_expires_at > clock.now THEN c.previous_signing_secret END AS previous_signing_secret, clock.now
"""
CLAIM = text(f"""
    WITH clock AS MATERIALIZED (SELECT punctual_now() AS now),
    asked AS (SELECT * FROM unnest(CAST(:ids AS uuid[]), CAST(:generations AS int[]), CAST(:attempts AS int[]))
              AS a(id, generation, attempts)),
    free AS MATERIALIZED (
      SELECT j.id, j.payload_bytes FROM jobs j JOIN asked a ON a.id = j.id CROSS JOIN clock
      WHERE j.status IN ('pending', 'scheduled') AND j.queue_generation = a.generation AND j.attempts = a.attempts
        AND j.attempts < j.max_attempts AND j.run_at <= clock.now
        AND EXISTS (SELECT FROM processes p WHERE p.id = :worker AND p.lost_at IS NULL AND p.stopped_at IS NULL)
      ORDER BY j.id FOR NO KEY UPDATE OF j SKIP LOCKED
    ),
    picked AS (
      SELECT id FROM (
        SELECT id, row_number() OVER w AS place, sum(payload_bytes) OVER w AS total FROM free WINDOW w AS (ORDER BY id)
      ) sized WHERE place = 1 OR total <= :max_bytes
    )
    UPDATE jobs j SET status = 'running', attempts = j.attempts + 1, worker = :worker, started_at = clock.now,
                      lease_expires_at = clock.now + make_interval(secs => {LEASE_SECONDS}), updated_at = clock.now
    FROM picked, clients c, clock WHERE j.id = picked.id AND c.id = j.client_id
    RETURNING {CLAIM_COLUMNS}
""")
STILL_WAITING = text("""
    SELECT j.id, j.queue_generation, j.attempts, j.run_at
    FROM jobs j JOIN unnest(CAST(:ids AS uuid[]), CAST(:generations AS int[]), CAST(:attempts AS int[]))
      AS a(id, generation, attempts) ON a.id = j.id
    WHERE j.status IN ('pending', 'scheduled') AND j.queue_generation = a.generation AND j.attempts = a.attempts
      AND j.attempts < j.max_attempts
""")
TAKE_UP = text(f"""
    WITH clock AS MATERIALIZED (SELECT punctual_now() AS now)
    SELECT {CLAIM_COLUMNS} FROM jobs j JOIN clients c ON c.id = j.client_id CROSS JOIN clock
    WHERE j.worker = :worker AND j.status = 'running' AND NOT j.id = ANY(CAST(:held AS uuid[]))
    ORDER BY j.id LIMIT :most
""")
EXTEND = text(f"""
    UPDATE jobs SET lease_expires_at = punctual_now() + make_interval(secs => {LEASE_SECONDS})
    WHERE id IN (SELECT id FROM jobs WHERE worker = :worker AND status = 'running' AND id = ANY(CAST(:held AS uuid[]))
                   AND lease_expires_at < (SELECT punctual_now()) + make_interval(secs => {EXTEND_WITHIN_SECONDS})
                 ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)
""")


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a batch came to: the jobs now held, those to put back, and PostgreSQL's time of the claim."""

    claims: list[Claim]
    put_back: list[Due]
    now: datetime | None


def claim(conn: Connection, worker: UUID, tickets: Collection[Ticket]) -> Claimed:
    """Claims what may be claimed (C4). May leave `pending` and `scheduled`; attempts + 1, lease, worker.

    Locked rows are skipped, never waited for. What was not claimed is looked up once: if it still stands as its ticket says
    (locked this moment, not due yet, or beyond the batch's bytes) it is to be put back; all else is stale and may be dropped.
    """
    wanted = {ticket.job_id: ticket for ticket in tickets}
    rows = (
        conn.execute(CLAIM, {**_arrays(wanted.values()), "worker": worker, "max_bytes": MAX_BATCH_BYTES})
        .mappings()
        .all()
    )
    claims = [to_claim(row) for row in rows]
    for held in claims:
        wanted.pop(str(held.job_id), None)
    put_back: list[Due] = []
    if wanted:
        put_back = [
            Due(Ticket(str(row.id), row.queue_generation, row.attempts), row.run_at)
            for row in conn.execute(STILL_WAITING, _arrays(wanted.values()))
        ]
    return Claimed(claims, put_back, claims[0].claimed_at if claims else None)


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
    return Claim(
        job_id=row["id"],
        client_id=row["client_id"],
        type=row["type"],
        body=row["payload"].encode(),
        callback_url=row["callback_url"],
        queue_generation=row["queue_generation"],
        attempt=row["attempts"],
        max_attempts=row["max_attempts"],
        number=row["number"],
        due_at=row["run_at"],
        claimed_at=row["now"],
        scheduled_for=row["scheduled_for"],
        signing_secrets=tuple(secret for secret in secrets if secret),
    )


def _arrays(tickets: Collection[Ticket]) -> dict[str, list[Any]]:
    return {
        "ids": [ticket.job_id for ticket in tickets],
        "generations": [ticket.queue_generation for ticket in tickets],
        "attempts": [ticket.attempts for ticket in tickets],
    }
