"""Cancelling what waits in one queue, in bounded batches, each with its line in the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from uuid import UUID

from sqlalchemy import text

from app import audit
from app.database import autocommit, transaction
from app.jobs.bulk import BATCH, By
from app.jobs.lanes import lane
from app.stores import Stores
from app.stream import Due, Ticket

# A flood that goes on meanwhile is left alone, or a purge would have no end.
WAITING = text("""
    SELECT id FROM jobs WHERE queue_id = :queue_id AND status IN ('pending', 'scheduled') AND created_at <= :until
    ORDER BY run_at LIMIT :most
""")
# Rows are locked in id order (C6), and the statement that changes them repeats their statuses (C5).
CANCEL = text(f"""
    WITH held AS MATERIALIZED (
      SELECT id FROM jobs WHERE id = ANY(CAST(:ids AS uuid[])) AND status IN ('pending', 'scheduled') ORDER BY id FOR NO KEY UPDATE
    )
    UPDATE jobs j SET status = 'cancelled', finished_at = punctual_now(), updated_at = punctual_now()
    FROM held WHERE j.id = held.id AND j.status IN ('pending', 'scheduled')
    RETURNING j.id, j.queue_generation, j.attempts, j.run_at, {lane("j")} AS lane
""")


def purge(stores: Stores, client_id: int, queue_id: int, name: str, until: datetime, by: By) -> int:
    """Cancels the queue's jobs that were made up to `until` and have not started. Returns how many.

    May leave `pending` and `scheduled`. What runs goes on, and its retry is left, unless it is there before the end.
    A crash between two batches leaves the rest as it was: ask again.
    """
    cancelled = 0
    while ids := _waiting(stores, queue_id, until):
        gone = _cancel(stores, client_id, name, ids, by)
        cancelled += len(gone)
        # Entries of cancelled jobs do no harm, but each would cost a claim in vain.
        stores.bypass.call("forget_waiting", partial(stores.stream.forget_waiting, gone), None)
    return cancelled


def _waiting(stores: Stores, queue_id: int, until: datetime) -> list[UUID]:
    with autocommit(stores.engine) as conn:
        return list(conn.scalars(WAITING, {"queue_id": queue_id, "until": until, "most": BATCH}))


def _cancel(stores: Stores, client_id: int, name: str, ids: Sequence[UUID], by: By) -> list[Due]:
    with transaction(stores.engine) as conn:
        rows = conn.execute(CANCEL, {"ids": sorted(ids)}).all()
        if rows:
            detail = {"count": len(rows), "ids": [str(row.id) for row in rows]}
            audit.record(conn, by.kind, by.name, client_id, "queue.purge", "queue", name, detail, by.address)
    return [Due(Ticket(str(row.id), row.queue_generation, row.attempts), row.run_at, row.lane) for row in rows]
