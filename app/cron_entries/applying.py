"""Making a client's cron entries what a set of definitions says, in one transaction, and telling what that changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, select

from app.callback import COLUMNS, headers_of
from app.cron_entries.changes import change_entry, insert_entry, remove_entry
from app.cron_entries.definition import Definition, as_change, composed
from app.cron_entries.reading import Entry, lock_named
from app.errors import Conflict
from app.instants import format_instant
from app.jobs.bulk import By
from app.models import CronEntry

Action = Literal["add", "change", "pause", "resume", "delete"]
# What a person calls the columns that a change can touch, in the order of the API.
FIELDS = {
    "description": "description",
    "expression": "cron_expression",
    "timezone": "timezone",
    "job_type": "job_template.type",
    # The hosts beside the URLs say nothing new.
    **{column: f"job_template.{column}" for column in COLUMNS if not column.endswith("_host")},
    "overlap": "overlap",
    "catch_up": "catch_up",
    "catch_up_window_seconds": "catch_up_window_seconds",
    "starts_at": "starts_at",
    "ends_at": "ends_at",
    "jitter_seconds": "jitter_seconds",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that is done to an entry. `fields` are the changed ones: name, before, after; a payload's texts are left out."""

    action: Action
    name: str
    fields: tuple[tuple[str, str, str], ...] = ()


def apply(conn: Connection, client_id: int, definitions: Iterable[Definition], prune: bool, by: By) -> list[Step]:
    """Adds and changes the client's entries by their names; with `prune`, deletes the named ones that are left over.

    In the caller's transaction, which shows what would be done when it is rolled back. What has no name stays: no file can
    hold it. Raises InvalidRequest and Conflict.
    """
    steps: list[Step] = []
    # In one order, so that two of these never wait for each other.
    wanted = sorted(definitions, key=lambda definition: definition.name or "")
    for definition in wanted:
        steps += _apply_one(conn, client_id, definition, by)
    if prune:
        kept = {composed(definition.name or "") for definition in wanted}
        for name in _names(conn, client_id):
            entry = None if name in kept else lock_named(conn, client_id, name)
            if entry is not None:
                remove_entry(conn, entry, by)
                steps.append(Step("delete", name))
    return steps


def _apply_one(conn: Connection, client_id: int, definition: Definition, by: By) -> list[Step]:
    name = composed(definition.name or "")
    before = lock_named(conn, client_id, name)
    if before is None:
        if insert_entry(conn, client_id, definition, by) is None:
            raise Conflict(f"{name}: somebody makes a cron job of this name at this moment. Try again.")
        return [Step("add", name)]
    changed, entry = None, before
    while changed is None:
        changed = change_entry(conn, entry, as_change(definition), by)
        entry = lock_named(conn, client_id, name) or entry
    steps = []
    fields = tuple((FIELDS[column], *_values(column, before, entry)) for column in FIELDS if column in changed)
    if fields:
        steps.append(Step("change", name, fields))
    if entry.enabled != before.enabled:
        steps.append(Step("resume" if entry.enabled else "pause", name))
    return steps


def _values(column: str, before: Entry, after: Entry) -> tuple[str, str]:
    if column == "payload":
        return f"{len(before.payload or ''):,} characters", f"{len(after.payload or ''):,} others"
    if column == "headers":
        # Their values may be secrets.
        return ", ".join(name for name, _ in headers_of(before.headers)), "others"
    return _told(getattr(before, column)), _told(getattr(after, column))


def _told(value: Any) -> str:
    if value is None:
        return "none"
    return format_instant(value) if hasattr(value, "tzinfo") else str(value)


def _names(conn: Connection, client_id: int) -> list[str]:
    query = select(CronEntry.name).where(CronEntry.client_id == client_id, CronEntry.name.is_not(None))
    return [name for name in conn.execute(query.order_by(CronEntry.name)).scalars() if name is not None]
