"""Changing many jobs in the background: asked for once, done by the leader in batches, with progress that survives it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Engine, Row, text

from app import audit
from app.database import autocommit, transaction
from app.jobs import search
from app.jobs.bulk import BATCH, CHANGE, LEAVES, Action, By
from app.jobs.search import JobSearch
from app.jobs.submit import enqueue
from app.stores import Stores
from app.stream import Due, Ticket

INSERT = text("""
    INSERT INTO bulk_operations (client_id, action, filter, through_id, spread_seconds, matched, state, finished_at, actor_kind, actor, address)
    VALUES (:client_id, :action, CAST(:filter AS jsonb), :through, :spread, :matched, CAST(:state AS text),
            CASE WHEN CAST(:state AS text) = 'done' THEN punctual_now() END, :kind, :actor, :address)
    RETURNING id
""")
# In turns: a large change of one client holds up nobody else's.
NEXT = text("""
    SELECT id FROM bulk_operations WHERE state IN ('waiting', 'running') ORDER BY id <= :after, id LIMIT 1
""")
HOLD = text("""
    SELECT * FROM bulk_operations WHERE id = :id AND state IN ('waiting', 'running') FOR UPDATE SKIP LOCKED
""")
PROGRESS = text("""
    UPDATE bulk_operations SET state = 'running', after_id = coalesce(CAST(:after AS uuid), after_id), changed = changed + :changed,
      passed_by = passed_by + :passed_by
    WHERE id = :id
""")
# Jobs that had changed before their batch came were not even found. How many were there is known up to the cap of counting.
FINISH = text("""
    UPDATE bulk_operations SET state = 'done', finished_at = punctual_now(),
      passed_by = CASE WHEN matched <= :cap THEN greatest(passed_by, matched - changed) ELSE passed_by END,
      matched = CASE WHEN matched <= :cap THEN greatest(matched, changed + passed_by) ELSE changed + passed_by END
    WHERE id = :id
""")
FAIL = text("""
    UPDATE bulk_operations SET state = 'failed', finished_at = punctual_now(), error = :error
    WHERE id = :id AND state IN ('waiting', 'running')
""")
SPREAD = text("""
    UPDATE jobs j SET run_at = j.run_at + make_interval(secs => u.later), first_due_at = j.run_at + make_interval(secs => u.later)
    FROM unnest(CAST(:ids AS uuid[]), CAST(:later AS float8[])) AS u(id, later) WHERE j.id = u.id AND j.status = 'scheduled'
    RETURNING j.id, j.run_at
""")
_OWN = "id = :id AND (CAST(:client_id AS bigint) IS NULL OR client_id = :client_id)"
GET = text(f"SELECT * FROM bulk_operations WHERE {_OWN}")
STOP = text(f"""
    UPDATE bulk_operations SET state = 'stopped', finished_at = punctual_now()
    WHERE {_OWN} AND state IN ('waiting', 'running') RETURNING client_id, action, changed
""")
# Its multiples, without their whole parts, fill a span evenly however many there are.
GOLDEN_RATIO = (5**0.5 - 1) / 2
_INSTANTS = {"created_from", "created_until", "run_from", "run_until", "updated_until"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One as it stands. `passed_by`: jobs that had changed since it was asked for, whole when it is done.

    `matched` beyond search.COUNT_CAP is an estimate until it is done, then what was found.
    """

    id: int
    action: str
    state: str
    matched: int
    changed: int
    passed_by: int
    error: str | None
    created_at: datetime
    finished_at: datetime | None


def ask(
    engine: Engine,
    action: Action,
    wanted: JobSearch,
    by: By,
    spread_seconds: float | None = None,
    through: UUID | None = None,
) -> int:
    """Asks for a change of everything that matches now; returns the operation's id. The leader begins within a second.

    `through`: only jobs up to this id, the newest there was when a person was asked.
    """
    narrowed = search.narrowed(wanted, LEAVES[action])
    newest = None if narrowed is None else through or search.newest_id(engine, narrowed)
    matched = 0 if narrowed is None or newest is None else _count(engine, narrowed, newest)
    told = _stored(narrowed or wanted)
    with transaction(engine) as conn:
        values = {
            "client_id": by.client_id, "action": action, "filter": json.dumps(told), "through": newest or UUID(int=0),
            "spread": spread_seconds, "matched": matched, "state": "waiting" if newest else "done", "kind": by.kind,
            "actor": by.name[:128], "address": by.address,
        }  # fmt: skip
        made = int(conn.execute(INSERT, values).scalar_one())
        detail = {"filter": told, "matched": matched, "operation": made}
        audit.record(conn, by.kind, by.name, by.client_id, f"job.bulk_{action}", "bulk", str(made), detail, by.address)
    return made


def _count(engine: Engine, wanted: JobSearch, through: UUID) -> int:
    """How many match: an estimate when it is above COUNT_CAP."""
    found = search.count(engine, wanted, through)
    return max(found.number, search.COUNT_CAP + 1) if found.is_estimate else found.number


def next_open(engine: Engine, after: int = 0) -> int | None:
    """The operation whose turn it is when that of `after` was the last; None when all are over."""
    with autocommit(engine) as conn:
        return conn.execute(NEXT, {"after": after}).scalars().one_or_none()


def step(stores: Stores, operation_id: int) -> bool:
    """One batch of an operation. False: nothing was done, since it is over by now, or in somebody's hands.

    1. Change the batch and note the progress, in one transaction. A crash before its end: nothing happened, and the next leader does
       the batch. Rows that have changed since the operation was asked for, by itself too, are passed by: nothing is done twice.
    2. Retried jobs are added to Redis. A crash before that: the rescuer, or the loader, brings them in.
    """
    due: list[Due] = []
    with transaction(stores.engine) as conn:
        operation = conn.execute(HOLD, {"id": operation_id}).one_or_none()
        if operation is None:
            return False
        wanted = _read(operation.filter, operation)
        ids = search.ids_on(conn, wanted, BATCH, operation.through_id, operation.after_id)
        rows = _change(conn, operation, ids)
        now = None
        if operation.action == "retry" and rows:
            now, due = rows[0].run_at, _spread(conn, operation, rows)
        progress = {"after": ids[-1] if ids else None, "changed": len(rows), "passed_by": len(ids) - len(rows)}
        conn.execute(PROGRESS, {"id": operation_id, **progress})
        if len(ids) < BATCH:
            conn.execute(FINISH, {"id": operation_id, "cap": search.COUNT_CAP})
    if now is not None:
        enqueue(stores, due, now)
    return True


def fail(engine: Engine, operation_id: int, error: str) -> None:
    """Ends an operation whose batch cannot be done, unless it is over by now."""
    with autocommit(engine) as conn:
        conn.execute(FAIL, {"id": operation_id, "error": error})


def get(engine: Engine, client_id: int | None, operation_id: int) -> Operation | None:
    """A client's operation; None for another's. `client_id` None sees everybody's."""
    with autocommit(engine) as conn:
        row = conn.execute(GET, {"id": operation_id, "client_id": client_id}).mappings().one_or_none()
    return None if row is None else Operation(**{field.name: row[field.name] for field in fields(Operation)})


def stop(engine: Engine, operation_id: int, by: By) -> bool:
    """Ends an open operation after the batch it is at; what is done stays done. False: it was over, or is another client's."""
    with transaction(engine) as conn:
        row = conn.execute(STOP, {"id": operation_id, "client_id": by.client_id}).one_or_none()
        if row is None:
            return False
        detail = {"changed": row.changed}
        action, target = f"job.bulk_{row.action}_stop", str(operation_id)
        audit.record(conn, by.kind, by.name, row.client_id, action, "bulk", target, detail, by.address)
    return True


def _change(conn: Connection, operation: Row[Any], ids: Sequence[UUID]) -> Sequence[Row[Any]]:
    if not ids:
        return []
    action: Action = operation.action
    values = {
        "ids": sorted(ids), "leaves": list(LEAVES[action]), "client_id": operation.client_id, "until": operation.created_at,
    }  # fmt: skip
    return conn.execute(CHANGE[action], values).all()


def _spread(conn: Connection, operation: Row[Any], rows: Sequence[Row[Any]]) -> list[Due]:
    """The jobs that were retried, each at its time. How many there will be is not known beyond COUNT_CAP."""
    times = {row.id: row.run_at for row in rows}
    if operation.spread_seconds:
        places = [operation.changed + place for place in range(len(rows))]
        if operation.matched > search.COUNT_CAP:
            shares = [place * GOLDEN_RATIO % 1 for place in places]
        else:
            # The first at once, the last at the end of the span.
            shares = [min(1.0, place / max(1, operation.matched - 1)) for place in places]
        later = [share * operation.spread_seconds for share in shares]
        moved = conn.execute(SPREAD, {"ids": [row.id for row in rows], "later": later})
        times |= {row.id: row.run_at for row in moved}
    return [Due(Ticket(str(row.id), row.queue_generation, 0), times[row.id], row.lane) for row in rows]


def _stored(wanted: JobSearch) -> dict[str, Any]:
    values = {field.name: getattr(wanted, field.name) for field in fields(wanted)}
    return {
        name: value.isoformat() if isinstance(value, datetime) else list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value not in (None, ())
    }


def _read(stored: dict[str, Any], operation: Row[Any]) -> JobSearch:
    values = {
        name: datetime.fromisoformat(value) if name in _INSTANTS else tuple(value) if isinstance(value, list) else value
        for name, value in stored.items()
    }
    return JobSearch(**{**values, "updated_until": operation.created_at})
