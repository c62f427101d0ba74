"""Creating, replacing, changing and deleting cron entries, each with its line in the audit log."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, delete, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import IntegrityError

from app import audit, cron_occurrences
from app.callback import DEFAULT_ATTEMPTS, DEFAULT_TIMEOUT_SECONDS
from app.cron_entries.definition import Change, Definition, as_change, check_bounds, columns
from app.cron_entries.reading import Entry, lock, lock_named, not_found, owned
from app.cron_entries.schedule import db_time, next_after, offset_ms
from app.cron_entries.settling import settle
from app.database import transaction
from app.errors import Conflict
from app.jobs.bulk import By
from app.models import CronEntry
from app.models.declarative import db_now
from app.queues import ensure

NAME_INDEX = "uq_cron_entries_client_name"
NEXT_ID = text("SELECT nextval(pg_get_serial_sequence('cron_entries', 'id'))")
SCHEDULE = {"expression", "timezone"}
BOUNDS = {"starts_at", "ends_at"}
# How often a name may be found taken and then deleted before we give up.
NAME_TRIES = 3

T = TypeVar("T")


def create(engine: Engine, client_id: int, definition: Definition, by: By) -> int:
    """The new entry's id. Raises InvalidRequest for what cannot be used, Conflict for a name that is taken."""
    with transaction(engine) as conn:
        made = insert_entry(conn, client_id, definition, by)
    if made is None:
        raise _name_is_taken()
    return made


def replace(engine: Engine, client_id: int, definition: Definition, by: By) -> tuple[int, bool]:
    """Makes the client's entry of this name what the definition says. Returns its id, and whether it is new.

    The same definition once more changes nothing, not even when it was last updated. Raises InvalidRequest.
    """

    def attempt(conn: Connection) -> tuple[int, bool] | None:
        entry = lock_named(conn, client_id, columns({"name": definition.name or ""})["name"])
        if entry is None:
            made = insert_entry(conn, client_id, definition, by)
            # Taken all the same: by a request of this very moment. It is there now.
            return None if made is None else (made, True)
        changed = change_entry(conn, entry, as_change(definition), by)
        return None if changed is None else (entry.id, False)

    return in_steps(engine, attempt)


def change(engine: Engine, client_id: int | None, entry_id: int, wanted: Change, by: By) -> None:
    """Changes what `wanted` names; see `change_entry`. Raises NotFound, InvalidRequest, Conflict."""
    try:
        in_steps(engine, lambda conn: change_entry(conn, lock(conn, client_id, entry_id), wanted, by))
    except IntegrityError as error:
        if NAME_INDEX not in str(error.orig):
            raise
        raise _name_is_taken() from None


def remove(engine: Engine, client_id: int | None, entry_id: int, by: By) -> None:
    """Deletes the entry and its occurrences; jobs it has made go on. Raises NotFound."""
    with transaction(engine) as conn:
        remove_entry(conn, lock(conn, client_id, entry_id), by)


def remove_entry(conn: Connection, entry: Entry, by: By) -> None:
    """As `remove`, for a locked entry."""
    conn.execute(delete(CronEntry).where(*owned(entry.client_id, entry.id)))
    note(conn, "delete", entry, by, {"name": entry.name})


def insert_entry(conn: Connection, client_id: int, definition: Definition, by: By) -> int | None:
    """The new entry's id; None when the client has one of this name. Raises InvalidRequest."""
    values = columns(as_change(definition))
    check_bounds(definition.starts_at, definition.ends_at)
    entry_id = int(conn.execute(NEXT_ID).scalar_one())
    now = db_time(conn)
    _take_from_queue(conn, client_id, values)
    values |= {
        "id": entry_id,
        "client_id": client_id,
        "offset_ms": offset_ms(entry_id, definition.jitter_seconds),
        "next_run_at": _next(values, now),
        "created_at": now,
        "updated_at": now,
    }
    if definition.enabled is False:
        values |= {"enabled": False, "paused_at": now, "paused_by": by.name}
    made = conn.execute(insert(CronEntry).values(values).on_conflict_do_nothing().returning(CronEntry.id))
    if made.one_or_none() is None:
        return None
    detail = {"name": definition.name, "expression": definition.expression, "timezone": definition.timezone}
    audit.record(
        conn, by.kind, by.name, client_id, "cron_entry.create", "cron_entry", str(entry_id), detail, by.address
    )
    return entry_id


def change_entry(
    conn: Connection, entry: Entry, wanted: Change, by: By, pause_reason: str | None = None
) -> set[str] | None:
    """Changes a locked entry, so that a firing (C20) sees it before or after, never between. Returns which columns changed.

    None: what it missed is being written in several steps, and this was not the last; lock it and call again.
    Another expression or zone computes the next time anew, from now; a time that had come and was not fired is skipped, and
    on record. So do bounds that leave the next time outside, and ending a pause. Anything else leaves the next time as it is.
    A schedule that is put right ends what an error had disabled.
    """
    values = columns(wanted)
    _take_from_queue(conn, entry.client_id, values)
    values = {name: value for name, value in values.items() if value != getattr(entry, name)}
    wanted_schedule = {name: values.get(name, getattr(entry, name)) for name in SCHEDULE | BOUNDS}
    now = db_time(conn)
    is_enabled = _is_to_be_enabled(entry, wanted, bool(values.keys() & (SCHEDULE | BOUNDS)))
    if values.keys() & BOUNDS:
        check_bounds(wanted_schedule["starts_at"], wanted_schedule["ends_at"])
    if (is_enabled and not entry.enabled) or _moves_next(entry, values, wanted_schedule, now):
        next_run_at = _next(wanted_schedule, now)
        if not settle(conn, entry, now):
            return None
        values["next_run_at"] = next_run_at
    if "jitter_seconds" in values:
        values["offset_ms"] = offset_ms(entry.id, values["jitter_seconds"])
    if is_enabled != entry.enabled:
        values |= _switched(conn, entry, is_enabled, now, by, pause_reason)
    if values:
        conn.execute(update(CronEntry).where(CronEntry.id == entry.id).values(**values, updated_at=db_now()))
        note(conn, _action(entry, is_enabled), entry, by, _told(values, pause_reason))
    return set(values)


def in_steps(engine: Engine, step: Callable[[Connection], T | None]) -> T:
    """Calls `step` in one transaction after the other until it is done, so that none of them lasts long."""
    while True:
        with transaction(engine) as conn:
            done = step(conn)
        if done is not None:
            return done


def note(conn: Connection, action: str, entry: Entry, by: By, detail: dict[str, Any]) -> None:
    """A line in the audit log."""
    target = str(entry.id)
    audit.record(
        conn, by.kind, by.name, entry.client_id, f"cron_entry.{action}", "cron_entry", target, detail, by.address
    )


def _is_to_be_enabled(entry: Entry, wanted: Change, is_other_schedule: bool) -> bool:
    if "enabled" in wanted:
        return wanted["enabled"]
    return entry.enabled or (entry.disabled_reason is not None and is_other_schedule)


def _moves_next(entry: Entry, values: dict[str, Any], schedule: dict[str, Any], now: datetime) -> bool:
    if values.keys() & SCHEDULE:
        return True
    if not values.keys() & BOUNDS:
        return False
    following, starts_at, ends_at = entry.next_run_at, schedule["starts_at"], schedule["ends_at"]
    # What has come already and may still run is left to the cron loop.
    is_due = entry.enabled and following is not None and following + entry.offset <= now
    is_inside = following is not None and (starts_at or following) <= following <= (ends_at or following)
    return not (is_due and is_inside)


def _take_from_queue(conn: Connection, client_id: int, values: dict[str, Any]) -> None:
    """Makes the template's queue, if there is none, and takes from it what the template leaves to it."""
    if "queue" not in values:
        return
    queue = ensure(conn, client_id, values["queue"])
    if values["max_attempts"] is None:
        values["max_attempts"] = queue.default_max_attempts or DEFAULT_ATTEMPTS
    if values["timeout_seconds"] is None:
        values["timeout_seconds"] = queue.default_timeout_seconds or DEFAULT_TIMEOUT_SECONDS


def _next(schedule: dict[str, Any], now: datetime) -> datetime:
    return next_after(
        schedule["expression"], schedule["timezone"], now, schedule.get("starts_at"), schedule.get("ends_at")
    )


def _switched(
    conn: Connection, entry: Entry, is_enabled: bool, now: datetime, by: By, reason: str | None
) -> dict[str, Any]:
    if is_enabled:
        nothing: dict[str, Any] = dict.fromkeys(("paused_at", "pause_reason", "paused_by", "disabled_reason"))
        return {"enabled": True, **nothing}
    # Nor does what waits for a job to end run while its entry is paused.
    cron_occurrences.skip_buffered(conn, [entry.id], "paused", reason)
    return {"enabled": False, "paused_at": now, "pause_reason": reason, "paused_by": by.name[:128]}


def _action(entry: Entry, is_enabled: bool) -> str:
    if is_enabled == entry.enabled:
        return "change"
    return "resume" if is_enabled else "pause"


def _told(values: dict[str, Any], reason: str | None) -> dict[str, Any]:
    """What of a change goes into the audit log: the names of its columns, and the short ones that say when."""
    shown: dict[str, Any] = {name: values[name] for name in ("name", "expression", "timezone") if name in values}
    return {"changed": sorted(values), **shown, **({"reason": reason} if reason else {})}


def _name_is_taken() -> Conflict:
    return Conflict("name: another cron job of yours has this name. Give another, or change that one.")


__all__ = ["change", "create", "not_found", "remove", "replace"]
