"""What the leader's rescuer needs: running rows that lost their worker, and due rows to be looked at again (section 7)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text

from app.attempts import Claim
from app.ids import uuid7
from app.jobs import follow_ups
from app.jobs.claim import CLAIM_COLUMNS, to_claim
from app.jobs.lanes import lane
from app.stream import Due, Ticket

LOST = text(f"""
    WITH clock AS MATERIALIZED (SELECT punctual_now() AS now)
    SELECT {CLAIM_COLUMNS}, j.worker, j.started_at, (p.id IS NOT NULL AND p.lost_at IS NULL AND p.stopped_at IS NULL) AS lease_ended
    FROM jobs j JOIN clients c ON c.id = j.client_id JOIN queues q ON q.id = j.queue_id CROSS JOIN clock LEFT JOIN processes p ON p.id = j.worker
    WHERE j.status = 'running' AND j.id > :after
      AND (p.id IS NULL OR p.lost_at IS NOT NULL OR p.stopped_at IS NOT NULL OR j.lease_expires_at < clock.now)
    ORDER BY j.id LIMIT :most
""")
WAITING_COLUMNS = f"id, queue_generation, attempts, run_at, {lane('j')} AS lane"
DUE_SINCE = text(f"""
    SELECT {WAITING_COLUMNS}, attempts >= max_attempts AS exhausted FROM jobs j
    WHERE status IN ('pending', 'scheduled') AND run_at < :before AND updated_at < :before AND (run_at, id) > (:after_run_at, :after_id)
    ORDER BY run_at, id LIMIT :most
""")
DUE_BY = text(f"""
    SELECT {WAITING_COLUMNS} FROM jobs j
    WHERE status IN ('pending', 'scheduled') AND run_at <= :by AND (run_at, id) > (:after_run_at, :after_id)
    ORDER BY run_at, id LIMIT :most
""")
_FOLLOWED = follow_ups.cte(
    status_code="j.last_status_code", error="c.last_error", excerpt="NULL", source="JOIN asked ON asked.id = c.id"
)
BURY_EXHAUSTED = text(f"""
    WITH clock AS MATERIALIZED (SELECT punctual_now() AS now),
    asked AS (SELECT * FROM unnest(CAST(:ids AS uuid[]), CAST(:follow_ids AS uuid[])) AS a(id, follow_id)),
    changed AS (
      UPDATE jobs SET status = 'dead', finished_at = clock.now, updated_at = clock.now,
                      last_error = coalesce(last_error, 'The job had used all of its attempts.'), last_error_class = coalesce(last_error_class, 'lost')
      FROM clock WHERE id IN (SELECT id FROM jobs WHERE id = ANY(CAST(:ids AS uuid[])) AND status IN ('pending', 'scheduled')
                                AND attempts >= max_attempts ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)
      RETURNING id, client_id, status, attempts, last_error
    ), {_FOLLOWED}
    SELECT count(*) FROM changed
""")
NIL = UUID(int=0)


@dataclass(frozen=True, slots=True)
class LostClaim:
    """A running row without a worker. `lease_ended`: its worker lives, only the lease ended."""

    claim: Claim
    worker: UUID
    started_at: datetime
    lease_ended: bool


@dataclass(frozen=True, slots=True)
class Place:
    """Where a walk over waiting rows stands."""

    run_at: datetime
    job_id: UUID


def lost_claims(conn: Connection, after: UUID, most: int) -> list[LostClaim]:
    """Running rows whose worker has no row, is declared lost or has stopped, or whose lease ended, by id."""
    rows = conn.execute(LOST, {"after": after, "most": most}).mappings()
    return [LostClaim(to_claim(row), row["worker"], row["started_at"], row["lease_ended"]) for row in rows]


def due_since(
    conn: Connection, before: datetime, after: Place, most: int
) -> tuple[list[Due], list[UUID], Place | None]:
    """Rows due and untouched since before `before`: those to add, those with no attempt left, and where to go on (None: at the end)."""
    rows = conn.execute(DUE_SINCE, _walk(after, most) | {"before": before}).all()
    add = [Due(Ticket(str(r.id), r.queue_generation, r.attempts), r.run_at, r.lane) for r in rows if not r.exhausted]
    return add, [r.id for r in rows if r.exhausted], Place(rows[-1].run_at, rows[-1].id) if len(rows) == most else None


def due_by(conn: Connection, by: datetime, after: Place, most: int) -> tuple[list[Due], Place | None]:
    """All waiting rows due by an instant, for loader (C13) and rebuild (C14), and where to go on (None: at the end)."""
    rows = conn.execute(DUE_BY, _walk(after, most) | {"by": by}).all()
    jobs = [Due(Ticket(str(r.id), r.queue_generation, r.attempts), r.run_at, r.lane) for r in rows]
    return jobs, Place(rows[-1].run_at, rows[-1].id) if len(rows) == most else None


def bury_exhausted(conn: Connection, ids: list[UUID]) -> None:
    """Buries due rows that have no attempt left. May leave `pending` and `scheduled`, for `dead`. Locked ones are left for later.

    The jobs that tell of it are due rows, which the rescuer finds.
    """
    if ids:
        conn.execute(BURY_EXHAUSTED, {"ids": ids, "follow_ids": [uuid7() for _ in ids]})


def _walk(after: Place, most: int) -> dict[str, object]:
    return {"after_run_at": after.run_at, "after_id": after.job_id, "most": most}
