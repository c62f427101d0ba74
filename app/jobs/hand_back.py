"""Giving back what was claimed and never sent: the attempt did not happen (C5, C19)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text

from app.attempts import Claim
from app.stream import Due, Ticket

HAND_BACK = text("""
    WITH clock AS MATERIALIZED (SELECT punctual_now() AS now),
    r AS (SELECT * FROM unnest(CAST(:ids AS uuid[]), CAST(:generations AS int[]), CAST(:attempts AS int[]))
          AS u(id, generation, attempt)),
    held AS MATERIALIZED (
      SELECT j.id FROM jobs j JOIN r ON r.id = j.id
      WHERE j.status = 'running' AND j.worker = :worker AND j.queue_generation = r.generation AND j.attempts = r.attempt
      ORDER BY j.id FOR NO KEY UPDATE OF j
    )
    UPDATE jobs j SET
      status = CASE WHEN j.cancel_requested_at IS NULL THEN 'scheduled' ELSE 'cancelled' END,
      finished_at = CASE WHEN j.cancel_requested_at IS NULL THEN NULL ELSE clock.now END,
      attempts = j.attempts - 1, worker = NULL, lease_expires_at = NULL, updated_at = clock.now
    FROM held, clock WHERE j.id = held.id
    RETURNING j.id, j.status, j.queue_generation, j.attempts, j.run_at, clock.now
""")


@dataclass(frozen=True, slots=True)
class HandedBack:
    """The jobs that wait again, due now, to be added to Redis at `now`."""

    jobs: list[Due]
    now: datetime | None


def hand_back(conn: Connection, worker: UUID, claims: Sequence[Claim]) -> HandedBack:
    """May leave `running`, for `scheduled` (due now), or `cancelled` where that was asked; attempts - 1."""
    if not claims:
        return HandedBack([], None)
    rows = conn.execute(
        HAND_BACK,
        {
            "worker": worker,
            "ids": [claim.job_id for claim in claims],
            "generations": [claim.queue_generation for claim in claims],
            "attempts": [claim.attempt for claim in claims],
        },
    ).all()
    waiting = [row for row in rows if row.status == "scheduled"]
    jobs = [Due(Ticket(str(row.id), row.queue_generation, row.attempts), row.run_at) for row in waiting]
    return HandedBack(jobs, rows[0].now if rows else None)
