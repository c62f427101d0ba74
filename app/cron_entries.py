"""Storing cron entries: create, read, change, delete, and when each runs next. Firing them is app.jobs.fire's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, delete, insert, select, text, update
from sqlalchemy.exc import IntegrityError

from app.cron import CronError, Schedule, describe, parse
from app.database import autocommit, transaction
from app.errors import Conflict, NotFound, invalid
from app.models import CronEntry
from app.models.declarative import db_now

NAME_INDEX = "uq_cron_entries_client_name"
NOW = text("SELECT punctual_now()")


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """What each job of an entry is made from. `payload` is the very text from the request."""

    job_type: str
    payload: str
    callback_url: str
    callback_host: str
    max_attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A cron entry as stored. `next_run_at` is of no account while it is disabled."""

    id: int
    client_id: int
    name: str | None
    expression: str
    timezone: str
    job_type: str
    payload: str
    callback_url: str
    max_attempts: int
    enabled: bool
    disabled_reason: str | None
    next_run_at: datetime | None
    last_run_at: datetime | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What to change; None leaves it as it is."""

    name: str | None = None
    expression: str | None = None
    timezone: str | None = None
    template: Template | None = None
    enabled: bool | None = None


_COLUMNS = [getattr(CronEntry, name) for name in Entry.__slots__]


def create(engine: Engine, client_id: int, name: str | None, expression: str, timezone: str, template: Template) -> int:
    """The new entry's id. Raises InvalidRequest for a schedule that cannot be used, Conflict for a name that is taken."""
    with _names_are_unique(), transaction(engine) as conn:
        values = {
            "client_id": client_id,
            "name": name,
            "expression": expression,
            "timezone": timezone,
            "next_run_at": next_after(expression, timezone, _now(conn)),
            **_template_values(template),
        }
        return int(conn.execute(insert(CronEntry).values(values).returning(CronEntry.id)).scalar_one())


def get(engine: Engine, client_id: int | None, entry_id: int) -> Entry:
    """The entry. Raises NotFound, also for another client's; `client_id` None sees every client's."""
    with autocommit(engine) as conn:
        row = conn.execute(select(*_COLUMNS).where(*_owned(client_id, entry_id))).mappings().one_or_none()
    if row is None:
        raise _not_found(entry_id)
    return Entry(**row)


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


def change(engine: Engine, client_id: int | None, entry_id: int, wanted: Change) -> None:
    """Changes what `wanted` names. Raises NotFound, InvalidRequest, Conflict.

    The row is locked first, so that a firing (C20) sees the entry before or after, never between. Another expression or
    zone computes the next time anew, from now. So does enabling an entry that was disabled, which also clears the reason:
    what it missed meanwhile is not caught up. Anything else leaves the next time as it stands.
    """
    with _names_are_unique(), transaction(engine) as conn:
        lock = select(CronEntry.expression, CronEntry.timezone, CronEntry.enabled).where(*_owned(client_id, entry_id))
        row = conn.execute(lock.with_for_update(key_share=True)).one_or_none()
        if row is None:
            raise _not_found(entry_id)
        values: dict[str, Any] = _template_values(wanted.template) if wanted.template else {}
        if wanted.name is not None:
            values["name"] = wanted.name
        schedule = (wanted.expression or row.expression, wanted.timezone or row.timezone)
        is_enabling = wanted.enabled is True and not row.enabled
        if is_enabling or schedule != (row.expression, row.timezone):
            values |= {"expression": schedule[0], "timezone": schedule[1]}
            values["next_run_at"] = next_after(*schedule, _now(conn))
        if wanted.enabled is not None and wanted.enabled != row.enabled:
            values |= {"enabled": wanted.enabled, "disabled_reason": None}
        if values:
            conn.execute(update(CronEntry).where(CronEntry.id == entry_id).values(**values, updated_at=db_now()))


def remove(engine: Engine, client_id: int | None, entry_id: int) -> None:
    """Deletes the entry and its occurrences; jobs it has made go on. Raises NotFound."""
    with autocommit(engine) as conn:
        gone = conn.execute(delete(CronEntry).where(*_owned(client_id, entry_id)).returning(CronEntry.id))
        if gone.one_or_none() is None:
            raise _not_found(entry_id)


def preview(
    engine: Engine, expression: str, timezone: str, after: datetime | None, count: int
) -> tuple[list[datetime], str]:
    """The next `count` times after `after` (None: PostgreSQL's now), and the expression in words. Raises InvalidRequest."""
    schedule = read_schedule(expression, timezone)
    words = describe(expression)
    if after is None:
        with autocommit(engine) as conn:
            after = _now(conn)
    return schedule.upcoming(after, count), words


def next_after(expression: str, timezone: str, now: datetime) -> datetime:
    """The first time after `now`. Raises InvalidRequest when the schedule cannot be read or has no such time."""
    following = read_schedule(expression, timezone).next_after(now)
    if following is None:
        raise invalid("cron_expression", "it names no time from now to the year 9998.")
    return following


def read_schedule(expression: str, timezone: str) -> Schedule:
    """The schedule. Raises InvalidRequest, which names the field at fault."""
    try:
        return parse(expression, timezone)
    except CronError as error:
        raise invalid(error.field, str(error)) from None


def _now(conn: Connection) -> datetime:
    now: datetime = conn.execute(NOW).scalar_one()
    return now


def _template_values(template: Template) -> dict[str, Any]:
    return {name: getattr(template, name) for name in Template.__slots__}


def _owned(client_id: int | None, entry_id: int) -> list[Any]:
    conditions: list[Any] = [CronEntry.id == entry_id]
    return conditions if client_id is None else [*conditions, CronEntry.client_id == client_id]


def _not_found(entry_id: int) -> NotFound:
    return NotFound(f"There is no cron job {entry_id}.")


class _names_are_unique:
    """Around a transaction: a name that another entry of the client has becomes a Conflict."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, IntegrityError) and NAME_INDEX in str(error.orig):
            raise Conflict("name: another cron job of yours has this name. Give another, or change that one.") from None
