"""Changing many jobs at a person's word: retry, cancel or delete, in bounded batches, each with its line in the audit log."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Connection, Row, text

from app import audit
from app.audit import ActorKind
from app.database import transaction
from app.jobs import search
from app.jobs.lanes import lane
from app.jobs.search import JobSearch
from app.jobs.submit import enqueue
from app.models import FINISHED, UNCLAIMED
from app.stores import Stores
from app.stream import Due, Ticket

Action = Literal["retry", "cancel", "delete"]
# The statuses each action may leave.
LEAVES: dict[Action, tuple[str, ...]] = {"retry": ("dead",), "cancel": UNCLAIMED, "delete": FINISHED}
BATCH = 500
# What one call does at most; whoever asked is told that there is more.
MOST_JOBS = 10_000
BUDGET_SECONDS = 15.0

# Rows are locked in id order (C6), and the statement that changes them repeats their statuses (C5).
_HELD = """
    held AS MATERIALIZED (
      SELECT id FROM jobs WHERE id = ANY(CAST(:ids AS uuid[])) AND status = ANY(CAST(:leaves AS text[]))
        AND (CAST(:client_id AS bigint) IS NULL OR client_id = :client_id)
        AND (CAST(:until AS timestamptz) IS NULL OR updated_at <= CAST(:until AS timestamptz))
      ORDER BY id {lock}
    )
"""
_WAIT = _HELD.format(lock="FOR NO KEY UPDATE")
CHANGE = {
    "retry": text(f"""
        WITH {_WAIT}, clock AS MATERIALIZED (SELECT punctual_now() AS now)
        UPDATE jobs j SET status = 'scheduled', run_at = now, first_due_at = now, attempts = 0, attempts_before = attempts_before + attempts,
                          queue_generation = queue_generation + 1, finished_at = NULL, cancel_requested_at = NULL, updated_at = now
        FROM held, clock WHERE j.id = held.id AND j.status = ANY(CAST(:leaves AS text[]))
        RETURNING j.id, j.client_id, j.queue_generation, j.run_at, {lane("j")} AS lane
    """),
    "cancel": text(f"""
        WITH {_WAIT}
        UPDATE jobs j SET status = 'cancelled', finished_at = punctual_now(), updated_at = punctual_now()
        FROM held WHERE j.id = held.id AND j.status = ANY(CAST(:leaves AS text[]))
        RETURNING j.id, j.client_id
    """),
    "delete": text(f"""
        WITH {_HELD.format(lock="FOR UPDATE")}
        DELETE FROM jobs j USING held WHERE j.id = held.id AND j.status = ANY(CAST(:leaves AS text[]))
        RETURNING j.id, j.client_id
    """),
}


@dataclass(frozen=True, slots=True)
class By:
    """Who changes something, for the audit log, and whose jobs: `client_id` None is every client's."""

    kind: ActorKind
    name: str
    address: str | None = None
    client_id: int | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """What a bulk change came to. `passed_by`: not changed, their status had moved on. `has_more`: call again to go on."""

    changed: int
    passed_by: int = 0
    has_more: bool = False


def change(
    stores: Stores, action: Action, ids: Sequence[UUID], by: By, detail: dict[str, Any] | None = None
) -> list[UUID]:
    """Changes those of up to BATCH jobs that stand in a status the action may leave (LEAVES). Returns which were changed.

    1. One statement for all of them, and the audit log's line, in one transaction. A crash before its end: nothing happened.
    2. Retried jobs are added to Redis. A crash before that: the rescuer brings them in (C16).
    """
    values = {"ids": sorted(ids), "leaves": list(LEAVES[action]), "client_id": by.client_id, "until": None}
    with transaction(stores.engine) as conn:
        rows = conn.execute(CHANGE[action], values).all()
        if rows:
            _note(conn, action, rows, by, detail or {})
    if action == "retry" and rows:
        jobs = [Due(Ticket(str(row.id), row.queue_generation, 0), row.run_at, row.lane) for row in rows]
        enqueue(stores, jobs, rows[0].run_at)
    return [row.id for row in rows]


def change_given(stores: Stores, action: Action, ids: Sequence[UUID], by: By) -> Done:
    """Changes the jobs of a list, batch by batch."""
    unique = list(dict.fromkeys(ids))[:MOST_JOBS]
    changed = sum(len(change(stores, action, unique[at : at + BATCH], by)) for at in range(0, len(unique), BATCH))
    return Done(changed, len(unique) - changed)


def change_matching(
    stores: Stores, action: Action, wanted: JobSearch, by: By, through: UUID, told: str, most: int = MOST_JOBS
) -> Done:
    """Changes what matches a filter, newest first: up to `most` jobs, and for BUDGET_SECONDS.

    Only jobs up to the id `through` are touched, those there were when the question was asked, and each once: what a retry
    leaves dead again is not retried again. `told` is the filter in words, for the audit log.
    """
    narrowed = search.narrowed(wanted, LEAVES[action])
    if narrowed is None:
        return Done(0)
    changed, seen, after = 0, 0, None
    deadline = time.monotonic() + BUDGET_SECONDS
    while seen < most and time.monotonic() < deadline:
        ids = search.ids(stores.engine, narrowed, min(BATCH, most - seen), through, after)
        changed += len(change(stores, action, ids, by, {"filter": told})) if ids else 0
        seen += len(ids)
        if len(ids) < min(BATCH, most - seen + len(ids)):
            return Done(changed, seen - changed)
        after = ids[-1]
    has_more = bool(search.ids(stores.engine, narrowed, 1, through, after))
    return Done(changed, seen - changed, has_more)


def _note(conn: Connection, action: Action, rows: Sequence[Row[Any]], by: By, detail: dict[str, Any]) -> None:
    """One line a batch: a bulk change of thousands would bury what else happened."""
    clients = {row.client_id for row in rows}
    client_id = clients.pop() if len(clients) == 1 else None
    ids = [str(row.id) for row in rows]
    if len(ids) == 1:
        audit.record(conn, by.kind, by.name, client_id, f"job.{action}", "job", ids[0], detail, by.address)
        return
    detail = {**detail, "count": len(ids), "ids": ids}
    audit.record(conn, by.kind, by.name, client_id, f"job.{action}", "jobs", f"{len(ids)} jobs", detail, by.address)
