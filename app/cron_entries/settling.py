"""What becomes of an entry's due times that nobody fired, when the entry is changed or ends its pause: skipped, and on record."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, update

from app import cron_occurrences
from app.cron_entries.reading import Entry
from app.cron_occurrences import Row
from app.models import CronEntry
from app.occurrences import Entry as Planned
from app.occurrences import Occurrence, Plan, Reason, skip_all


def settle(conn: Connection, entry: Entry, now: datetime) -> bool:
    """Writes the times of a locked entry that have come by `now` as skipped: `paused`, or else `changed`.

    False when there are more: its next time was moved on, and the rest is for another transaction, so that each stays short.
    An entry that was disabled by an error has no times that are known.
    """
    if entry.next_run_at is None or entry.next_run_at + entry.offset > now:
        return True
    reason: Reason = "paused" if entry.paused_at is not None else "changed"
    made = _plan(entry, entry.next_run_at, now, reason)
    cron_occurrences.write(conn, [Row(entry.id, o.nominal_at + entry.offset, o) for o in made.occurrences])
    if made.has_more:
        conn.execute(update(CronEntry).where(CronEntry.id == entry.id).values(next_run_at=made.next_run_at))
    return not made.has_more


def _plan(entry: Entry, next_run_at: datetime, now: datetime, reason: Reason) -> Plan:
    planned = Planned(
        expression=entry.expression,
        timezone=entry.timezone,
        next_run_at=next_run_at,
        overlap=entry.overlap,
        catch_up=entry.catch_up,
        catch_up_window_seconds=entry.catch_up_window_seconds,
        is_running=False,
        offset=entry.offset,
        ends_at=entry.ends_at,
    )
    detail = entry.pause_reason if reason == "paused" else None
    try:
        return skip_all(planned, now, reason, detail)
    except ValueError as error:
        # The schedule cannot be read any more: the one time that is known is on record all the same.
        return Plan([Occurrence(next_run_at, "skipped", "error", detail=str(error))])
