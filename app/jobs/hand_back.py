"""Giving back what was claimed and never sent: the attempt did not happen (C5, C19)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import structlog
from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from app.attempts import Claim
from app.database import is_about_a_row
from app.jobs.lanes import lane
from app.stream import Due, Ticket

logger = structlog.get_logger(__name__)

_FENCE = "j.status = 'running' AND j.worker = :worker AND j.queue_generation = r.generation AND j.attempts = r.attempt"
HAND_BACK = text(f"""
    WITH clock AS MATERIALIZED (SELECT punctual_now() AS now),
    r AS (SELECT * FROM unnest(CAST(:ids AS uuid[]), CAST(:generations AS int[]), CAST(:attempts AS int[]))
          AS u(id, generation, attempt)),
    fenced AS MATERIALIZED (SELECT j.id FROM jobs j JOIN r ON r.id = j.id WHERE {_FENCE}),
    held AS MATERIALIZED (
      SELECT j.id FROM jobs j JOIN r ON r.id = j.id WHERE {_FENCE} ORDER BY j.id FOR NO KEY UPDATE OF j SKIP LOCKED
    ),
    changed AS (
      UPDATE jobs j SET
        status = CASE WHEN j.cancel_requested_at IS NULL THEN 'scheduled' ELSE 'cancelled' END,
        finished_at = CASE WHEN j.cancel_requested_at IS NULL THEN NULL ELSE clock.now END,
        attempts = j.attempts - 1, worker = NULL, lease_expires_at = NULL, updated_at = clock.now
      FROM held, clock WHERE j.id = held.id
      RETURNING j.id, j.status, j.queue_generation, j.attempts, j.run_at, {lane("j")} AS lane
    )
    SELECT f.id AS fenced_id, c.*, clock.now FROM fenced f CROSS JOIN clock LEFT JOIN changed c ON c.id = f.id
""")


@dataclass(frozen=True, slots=True)
class HandedBack:
    """The jobs that wait again, due now, to be added to Redis at `now`. `locked` are still held: hand them back later."""

    jobs: list[Due]
    locked: list[Claim]
    now: datetime | None


def hand_back(conn: Connection, worker: UUID, claims: Sequence[Claim]) -> HandedBack:
    """May leave `running`, for `scheduled` (due now), or `cancelled` where that was asked; attempts - 1.

    A batch that fails for what one of its rows holds is halved until that row stands alone (C6). It is left as it is: it runs
    under nobody, and the rescuer finds it when its lease ends.
    """
    if not claims:
        return HandedBack([], [], None)
    try:
        return _hand_back(conn, worker, claims)
    except SQLAlchemyError as error:
        if not is_about_a_row(error):
            raise
        if len(claims) == 1:
            logger.error("not_handed_back", job_id=str(claims[0].job_id), error=str(error).splitlines()[0])
            return HandedBack([], [], None)
    half = len(claims) // 2
    first, second = hand_back(conn, worker, claims[:half]), hand_back(conn, worker, claims[half:])
    return HandedBack(first.jobs + second.jobs, first.locked + second.locked, second.now or first.now)


def _hand_back(conn: Connection, worker: UUID, claims: Sequence[Claim]) -> HandedBack:
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
    locked = {row.fenced_id for row in rows if row.id is None}
    return HandedBack(
        [Due(Ticket(str(row.id), row.queue_generation, row.attempts), row.run_at, row.lane) for row in waiting],
        [claim for claim in claims if claim.job_id in locked],
        rows[0].now if rows else None,
    )
