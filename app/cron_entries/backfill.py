"""Running an entry for times that have passed: what was never planned, or was skipped."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any

from sqlalchemy import Connection, Row, delete, text, update

from app import cron_occurrences
from app.cron_entries.changes import note
from app.cron_entries.reading import Entry, lock
from app.cron_entries.schedule import db_time, read_schedule
from app.cron_occurrences import Fired
from app.database import transaction
from app.errors import invalid
from app.ids import uuid7
from app.instants import format_instant
from app.jobs import enqueue
from app.jobs.bulk import By
from app.jobs.fire_jobs import NewJob, insert_jobs
from app.models import CronOccurrence
from app.occurrences import Occurrence, times_after
from app.stores import Stores

MOST_JOBS = 1000
# Times looked at, those that have fired among them.
MOST_TIMES = 10_000
DETAIL = "Filled in later."
ON_RECORD = text("""
    SELECT nominal_at, status, through_at, count AS stands_for FROM cron_occurrences
    WHERE cron_entry_id = :entry AND nominal_at <= :last AND coalesce(through_at, nominal_at) >= :first
""")


def backfill(
    stores: Stores,
    client_id: int | None,
    entry_id: int,
    first: datetime,
    last: datetime,
    by: By,
    dry_run: bool = False,
) -> int:
    """Makes a job, due now, for each nominal time from `first` to `last`, both included; returns how many.

    What has fired is left out, and so is what waits for a job to end; what was skipped becomes fired. The overlap policy is
    not asked. `dry_run` only counts. Raises NotFound; InvalidRequest for more than a thousand jobs, or a time to come.
    """
    with transaction(stores.engine) as conn:
        entry = lock(conn, client_id, entry_id)
        now = db_time(conn)
        _check(first, last, now)
        times = _times(entry, first, min(last, now - entry.offset))
        rows = conn.execute(ON_RECORD, {"entry": entry.id, "first": first, "last": last}).all()
        taken = {row.nominal_at for row in rows if row.status != "skipped"}
        wanted = [instant for instant in times if instant not in taken]
        if len(wanted) > MOST_JOBS:
            raise invalid(
                "to", f"these are {len(wanted):,} times, and one call takes {MOST_JOBS:,} at most: ask in parts."
            )
        if dry_run or not wanted:
            return len(wanted)
        fired = _fire(conn, entry, wanted, rows)
        jobs = insert_jobs(conn, [NewJob(o.job_id, entry.id, None, o.due_at) for o in fired])
        span = {"from": format_instant(first), "to": format_instant(last), "count": len(jobs)}
        note(conn, "backfill", entry, by, span)
    # A crash here: the jobs are due rows, which the rescuer finds (C16).
    enqueue(stores, jobs, now)
    return len(jobs)


def _check(first: datetime, last: datetime, now: datetime) -> None:
    if first > last:
        raise invalid("from", "it must not be later than to.")
    if last > now:
        raise invalid("to", f"it must not lie in the future; it is {format_instant(now)}.")


def _times(entry: Entry, first: datetime, last: datetime) -> list[datetime]:
    read_schedule(entry.expression, entry.timezone)
    # Nothing is earlier than the first instant there is.
    after = max(first, datetime.min.replace(tzinfo=first.tzinfo) + timedelta.resolution) - timedelta.resolution
    times: list[datetime] = []
    following = times_after(entry.expression, entry.timezone, after, entry.starts_at, entry.ends_at)
    for instant in takewhile(lambda instant: instant <= last, following):
        if len(times) == MOST_TIMES:
            raise invalid("to", f"these are more than {MOST_TIMES:,} times: ask in parts.")
        times.append(instant)
    return times


def _fire(conn: Connection, entry: Entry, wanted: list[datetime], rows: Sequence[Row[Any]]) -> list[Fired]:
    for row in rows:
        if row.stands_for > 1:
            _take_out(conn, entry, row, [instant for instant in wanted if row.nominal_at <= instant <= row.through_at])
    skipped = {row.nominal_at for row in rows if row.status == "skipped" and row.stands_for == 1}
    stored = [(entry.id, instant, uuid7()) for instant in wanted if instant in skipped]
    fresh = [
        cron_occurrences.Row(entry.id, instant + entry.offset, Occurrence(instant, "fired", detail=DETAIL), uuid7())
        for instant in wanted
        if instant not in skipped
    ]
    return [
        *cron_occurrences.fire_stored(conn, stored, ["skipped"], DETAIL),
        *cron_occurrences.write(conn, fresh),
    ]


def _take_out(conn: Connection, entry: Entry, row: Row[Any], taken: list[datetime]) -> None:
    """A row that stands for many skipped times loses those that now fire; it then begins with the first one left.

    The times in between follow from today's schedule, which may be another than the one they were skipped under: the count
    stays true, the first time may be the nearest there is.
    """
    if not taken:
        return
    this_row = (CronOccurrence.cron_entry_id == entry.id) & (CronOccurrence.nominal_at == row.nominal_at)
    first = _first_left(conn, entry, row, set(taken))
    left = row.stands_for - len(taken)
    if first is None or left < 1:
        conn.execute(delete(CronOccurrence).where(this_row))
        return
    values = {"nominal_at": first, "due_at": first + entry.offset, "count": left}
    values["through_at"] = row.through_at if left > 1 else None
    conn.execute(update(CronOccurrence).where(this_row).values(values))


def _first_left(conn: Connection, entry: Entry, row: Row[Any], taken: set[datetime]) -> datetime | None:
    known = {"entry": entry.id, "first": row.nominal_at, "last": row.through_at}
    others = {other.nominal_at for other in conn.execute(ON_RECORD, known) if other.nominal_at != row.nominal_at}
    before = row.nominal_at - timedelta.resolution
    for instant in times_after(entry.expression, entry.timezone, before, None, None):
        if instant > row.through_at:
            return None
        if instant not in taken and instant not in others:
            return instant
    return None
