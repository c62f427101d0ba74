"""Pausing an entry, with a reason, and resuming it."""

from __future__ import annotations

from sqlalchemy import Connection, Engine, update

from app.cron_entries.changes import change_entry, in_steps, note
from app.cron_entries.definition import check_text
from app.cron_entries.reading import Entry, lock
from app.jobs.bulk import By
from app.models import CronEntry
from app.models.declarative import db_now


def pause(engine: Engine, client_id: int | None, entry_id: int, reason: str | None, by: By) -> None:
    """Stops an entry until it is resumed; its waiting occurrence is skipped. Once more only takes a new reason.

    An entry that an error has disabled stays as it is. Raises NotFound, InvalidRequest.
    """
    check_text("reason", reason)

    def step(conn: Connection) -> bool:
        entry = lock(conn, client_id, entry_id)
        if entry.enabled:
            change_entry(conn, entry, {"enabled": False}, by, reason)
        elif entry.paused_at is not None and reason not in (None, entry.pause_reason):
            _set_reason(conn, entry, reason, by)
        return True

    in_steps(engine, step)


def resume(engine: Engine, client_id: int | None, entry_id: int, by: By) -> None:
    """Goes on from now. What was missed meanwhile is on record as skipped. Raises NotFound; InvalidRequest when no time is left."""
    in_steps(engine, lambda conn: change_entry(conn, lock(conn, client_id, entry_id), {"enabled": True}, by))


def _set_reason(conn: Connection, entry: Entry, reason: str | None, by: By) -> None:
    conn.execute(
        update(CronEntry)
        .where(CronEntry.id == entry.id)
        .values(pause_reason=reason, paused_by=by.name[:128], updated_at=db_now())
    )
    note(conn, "pause", entry, by, {"reason": reason})
