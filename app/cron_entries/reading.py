"""Reading cron entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Engine, Select, select

from app.callback import Callback
from app.database import autocommit
from app.errors import NotFound
from app.models import CronEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(Callback):
    """A cron entry as stored. `next_run_at` is of no account while it is disabled."""

    id: int
    client_id: int
    name: str | None
    description: str | None
    expression: str
    timezone: str
    job_type: str
    queue: str
    max_attempts: int
    timeout_seconds: float
    overlap: str
    catch_up: str
    catch_up_window_seconds: int
    starts_at: datetime | None
    ends_at: datetime | None
    jitter_seconds: int
    offset_ms: int
    enabled: bool
    disabled_reason: str | None
    paused_at: datetime | None
    pause_reason: str | None
    paused_by: str | None
    next_run_at: datetime | None
    due_at: datetime | None
    last_run_at: datetime | None
    last_job_id: UUID | None
    created_at: datetime
    updated_at: datetime

    @property
    def offset(self) -> timedelta:
        return timedelta(milliseconds=self.offset_ms)


_COLUMNS = [getattr(CronEntry, field.name) for field in fields(Entry)]


def get(engine: Engine, client_id: int | None, entry_id: int) -> Entry:
    """The entry. Raises NotFound, also for another client's; `client_id` None sees every client's."""
    with autocommit(engine) as conn:
        row = conn.execute(_one(client_id, entry_id)).mappings().one_or_none()
    if row is None:
        raise not_found(entry_id)
    return Entry(**row)


def lock(conn: Connection, client_id: int | None, entry_id: int) -> Entry:
    """The entry, held against firing and other changes to the end of the transaction. Raises NotFound."""
    row = conn.execute(_one(client_id, entry_id).with_for_update(key_share=True)).mappings().one_or_none()
    if row is None:
        raise not_found(entry_id)
    return Entry(**row)


def lock_named(conn: Connection, client_id: int, name: str) -> Entry | None:
    """As `lock`, by its name; None when the client has none of this name."""
    query = select(*_COLUMNS).where(CronEntry.client_id == client_id, CronEntry.name == name)
    row = conn.execute(query.with_for_update(key_share=True)).mappings().one_or_none()
    return None if row is None else Entry(**row)


def list_entries(
    engine: Engine, client_id: int | None, limit: int, offset: int = 0, after: int | None = None
) -> Sequence[Entry]:
    """Up to `limit` entries, newest first; `after` begins below that id."""
    query = select(*_COLUMNS).order_by(CronEntry.id.desc()).limit(limit).offset(offset)
    if client_id is not None:
        query = query.where(CronEntry.client_id == client_id)
    if after is not None:
        query = query.where(CronEntry.id < after)
    with autocommit(engine) as conn:
        return [Entry(**row) for row in conn.execute(query).mappings()]


def owned(client_id: int | None, entry_id: int) -> list[Any]:
    """The conditions for one entry of a client, or of any."""
    conditions: list[Any] = [CronEntry.id == entry_id]
    return conditions if client_id is None else [*conditions, CronEntry.client_id == client_id]


def not_found(entry_id: int) -> NotFound:
    return NotFound(f"There is no cron job {entry_id}.")


def _one(client_id: int | None, entry_id: int) -> Select[Any]:
    return select(*_COLUMNS).where(*owned(client_id, entry_id))
