"""Changing a queue: its limits, pausing, resuming, purging. Each change with its line in the audit log, and at once in Redis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypedDict

from sqlalchemy import Connection, select, text, update
from sqlalchemy.dialects.postgresql import insert

from app import audit
from app.database import transaction
from app.jobs.bulk import By
from app.jobs.purge import purge as purge_jobs
from app.models import Queue
from app.queues import reading
from app.queues.reading import COLUMNS, QueueRow
from app.stores import Stores

NOW = text("SELECT punctual_now()")

Values = dict[str, Any]
Decide = Callable[[QueueRow, datetime], Values]


class Settings(TypedDict, total=False):
    """What a queue is set to; None takes a limit away. `paused` left out leaves the queue paused or not, as it is."""

    concurrency: int | None
    rate_limit: int | None
    rate_period_seconds: float | None
    default_max_attempts: int | None
    default_timeout_seconds: float | None
    circuit_breaker: bool | None
    paused: bool


DEFAULTS: Settings = {
    "concurrency": None,
    "rate_limit": None,
    "rate_period_seconds": None,
    "default_max_attempts": None,
    "default_timeout_seconds": None,
    "circuit_breaker": None,
}


def put(stores: Stores, client_id: int, name: str, settings: Settings, by: By) -> bool:
    """Makes the client's queue what `settings` say; what they leave out gets its default. Returns whether the queue is new."""
    return _change(stores, client_id, name, by, _to(by, {**DEFAULTS, **settings}), may_make=True)


def patch(stores: Stores, client_id: int, name: str, settings: Settings, by: By) -> None:
    """Changes what `settings` name, and leaves the rest. Raises NotFound."""
    _change(stores, client_id, name, by, _to(by, settings))


def pause(stores: Stores, client_id: int, name: str, reason: str | None, by: By) -> None:
    """Lets nothing of the queue begin until it is resumed; what is under way ends. Once more only takes a new reason. Raises NotFound."""

    def decide(queue: QueueRow, now: datetime) -> Values:
        if queue.paused_at is None:
            return _paused(now, by, reason)
        if reason in (None, queue.pause_reason):
            return {}
        return _paused(queue.paused_at, by, reason)

    _change(stores, client_id, name, by, decide)


def resume(stores: Stores, client_id: int, name: str, by: By) -> None:
    """Lets go what has waited. Raises NotFound."""
    patch(stores, client_id, name, {"paused": False}, by)


def purge(stores: Stores, client_id: int, name: str, by: By) -> int:
    """Cancels what waits in the queue, due or not. Returns how many jobs. Raises NotFound."""
    queue = reading.get(stores.engine, client_id, name)
    with transaction(stores.engine) as conn:
        now = conn.execute(NOW).scalar_one()
    return purge_jobs(stores, client_id, queue.id, name, now, by)


def _to(by: By, settings: Mapping[str, Any]) -> Decide:
    def decide(queue: QueueRow, now: datetime) -> Values:
        values = {name: value for name, value in settings.items() if name != "paused"}
        is_paused = queue.paused_at is not None
        if settings.get("paused", is_paused) != is_paused:
            values |= _paused(None if is_paused else now, by, None)
        return values

    return decide


def _paused(paused_at: datetime | None, by: By, reason: str | None) -> Values:
    who = None if paused_at is None else by.name[:128]
    return {"paused_at": paused_at, "pause_reason": reason, "paused_by": who}


def _change(stores: Stores, client_id: int, name: str, by: By, decide: Decide, *, may_make: bool = False) -> bool:
    """Changes what `decide` says of the queue as it is. Returns whether the queue is new.

    1. Lock the row, change it, note it, in one transaction: a claim sees the queue before or after.
    2. Tell Redis, so that it acts at once. A crash before that, or Redis away: the leader tells it within a second.
    """
    with transaction(stores.engine) as conn:
        is_new = may_make and _make(conn, client_id, name)
        queue = _locked(conn, client_id, name)
        now: datetime = conn.execute(NOW).scalar_one()
        values = {column: value for column, value in decide(queue, now).items() if value != getattr(queue, column)}
        if values:
            conn.execute(update(Queue).where(Queue.id == queue.id).values(**values, updated_at=now))
        if values or is_new:
            _note(conn, queue, values, is_new, by)
        changed = _locked(conn, client_id, name)
    if values:
        limits = {changed.token: changed.limits}
        stores.bypass.call("set_limits", lambda: stores.stream.set_limits(limits, now), None)
    return is_new


def _make(conn: Connection, client_id: int, name: str) -> bool:
    values = {"client_id": client_id, "name": name}
    made = conn.execute(insert(Queue).values(values).on_conflict_do_nothing().returning(Queue.id))
    return made.one_or_none() is not None


def _locked(conn: Connection, client_id: int, name: str) -> QueueRow:
    query = select(*COLUMNS).where(Queue.client_id == client_id, Queue.name == name).with_for_update(key_share=True)
    found = conn.execute(query).mappings().one_or_none()
    if found is None:
        raise reading.not_found(name)
    return QueueRow(**found)


def _note(conn: Connection, queue: QueueRow, values: Values, is_new: bool, by: By) -> None:
    """A line for the settings, and one for a pause or its end."""

    def note(action: str, detail: Values) -> None:
        audit.record(
            conn, by.kind, by.name, queue.client_id, f"queue.{action}", "queue", queue.name, detail, by.address
        )

    settings = {column: value for column, value in values.items() if column in DEFAULTS}
    if settings or is_new:
        note("change", {**settings, **({"is_new": True} if is_new else {})})
    if values.keys() & {"paused_at", "pause_reason", "paused_by"}:
        is_paused = values.get("paused_at", queue.paused_at) is not None
        reason = values.get("pause_reason")
        note("pause" if is_paused else "resume", {} if reason is None else {"reason": reason})
