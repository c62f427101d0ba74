"""What became of the planned times of the made-up cron entries up to now, and the jobs that they made. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import takewhile
from random import Random
from uuid import UUID

from app.callback import Callback
from app.cron_occurrences import Row
from app.demo_data.history import MOMENT, Made, Order, lived
from app.demo_data.receivers import demo_receiver
from app.demo_data.schedules import Gap, Sketch
from app.occurrences import Occurrence, times_after

DAY = timedelta(days=1)
# The strip of a page shows twenty times: an entry with few a day goes back further, but never beyond what retention keeps.
ENOUGH = 12
SPANS = (DAY, 4 * DAY, 12 * DAY, 28 * DAY)
# No scheduler was up in this stretch of the day.
OUTAGE_HOURS = (9.3, 9.19)


@dataclass(frozen=True, slots=True)
class Planned:
    """An entry as it was stored."""

    id: int
    client_id: int
    sketch: Sketch
    callback: Callback
    offset: timedelta


@dataclass(slots=True)
class Past:
    """`next_run_at`: the first time that is still to come, or that a paused entry misses."""

    next_run_at: datetime | None = None
    rows: list[Row] = field(default_factory=list)
    jobs: list[Made] = field(default_factory=list)
    last_run_at: datetime | None = None


def past_of(rand: Random, entry: Planned, now: datetime, workers: tuple[UUID, ...]) -> Past:
    sketch = entry.sketch
    until = now - timedelta(hours=sketch.paused_hours or (sketch.lost_hours if sketch.lost_zone else 0)) - MOMENT
    times = _times(entry, now, until)
    past = Past(next(times_after(sketch.expression, sketch.timezone, until - entry.offset, None, None), None))
    busy_until = now - timedelta(days=40)
    for place, nominal_at in enumerate(times):
        due_at = nominal_at + entry.offset
        found_at = _found_at(due_at, now)
        following = times[place + 1] + entry.offset if place + 1 < len(times) else None
        occurrence = _skipped(entry, nominal_at, now, found_at, following, busy_until)
        if occurrence is not None:
            past.rows.append(Row(entry.id, due_at, occurrence))
            continue
        made = lived(rand, _order(rand, entry, now, due_at, found_at, busy_until), now, workers)
        past.jobs.append(made)
        past.rows.append(Row(entry.id, due_at, Occurrence(nominal_at, "fired"), made.job["id"]))
        past.last_run_at, busy_until = nominal_at, made.ended_at or now + DAY
    return past


def _times(entry: Planned, now: datetime, until: datetime) -> Sequence[datetime]:
    times: list[datetime] = []
    for span in SPANS:
        since = now - min(span, timedelta(hours=entry.sketch.age_hours))
        following = times_after(entry.sketch.expression, entry.sketch.timezone, since, None, None)
        times = list(takewhile(lambda at: at + entry.offset <= until, following))
        if len(times) >= ENOUGH:
            break
    return times


def _found_at(due_at: datetime, now: datetime) -> datetime:
    """When the cron loop found a time: at once, or at the end of the outage."""
    begin, end = (now - timedelta(hours=hours) for hours in OUTAGE_HOURS)
    return end if begin <= due_at < end else due_at


def _skipped(
    entry: Planned,
    nominal_at: datetime,
    now: datetime,
    found_at: datetime,
    following: datetime | None,
    busy_until: datetime,
) -> Occurrence | None:
    """Why a time did not fire, or None."""
    gap = _gap(entry.sketch.gaps, now - nominal_at)
    if gap is not None:
        return Occurrence(nominal_at, "skipped", gap.reason, detail=gap.detail)
    is_late = found_at - nominal_at - entry.offset > timedelta(seconds=60)
    is_newest = following is None or following > found_at
    catch_up = entry.sketch.catch_up
    if is_late and (catch_up == "none" or (catch_up == "one" and not is_newest)):
        return Occurrence(nominal_at, "skipped", "missed")
    if entry.sketch.overlap == "skip" and found_at < busy_until:
        return Occurrence(nominal_at, "skipped", "overlap")
    return None


def _gap(gaps: Sequence[Gap], ago: timedelta) -> Gap | None:
    within = (gap for gap in gaps if timedelta(hours=gap.to_hours) <= ago <= timedelta(hours=gap.from_hours))
    return next(within, None)


def _order(
    rand: Random, entry: Planned, now: datetime, due_at: datetime, found_at: datetime, busy_until: datetime
) -> Order:
    return Order(
        entry.client_id,
        entry.sketch.type,
        entry.callback,
        found_at + timedelta(milliseconds=rand.uniform(1, 12)),
        due_at,
        demo_receiver(rand, entry.callback, now),
        begins_at=busy_until if entry.sketch.overlap == "buffer_one" else None,
        cron_entry_id=entry.id,
    )
