"""What becomes of a cron entry's due times: which fire, which are skipped and why, and what comes next. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from app.cron import parse

# C20: found up to this late, an occurrence is on time and no catch-up policy is asked.
ON_TIME = timedelta(seconds=60)
MOST_CAUGHT_UP = 100
# Skipped ones beyond this many at a time become one row with from, to and count.
MOST_SKIPPED_ROWS = 100
# More times than this between two passes are counted no further in one pass: the next pass goes on from there.
MOST_PER_PASS = 10_000


@dataclass(frozen=True, slots=True)
class Entry:
    """What planning needs to know of a cron entry. `is_running`: its last job has not finished, retries included."""

    expression: str
    timezone: str
    next_run_at: datetime
    overlap: str
    catch_up: str
    catch_up_window_seconds: int
    is_running: bool


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One planned time, or `count` skipped ones up to `through_at`."""

    nominal_at: datetime
    status: Literal["fired", "buffered", "skipped"]
    reason: str | None = None
    through_at: datetime | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """The due occurrences in order of time, and the nominal time that comes next (None: never again)."""

    occurrences: list[Occurrence] = field(default_factory=list)
    next_run_at: datetime | None = None
    cancels_previous: bool = False
    has_more: bool = False


def plan(entry: Entry, now: datetime) -> Plan:
    """Settles every time due at `now`. Raises app.cron.CronError for an entry that cannot be computed.

    The next time follows from the nominal time, never from now (section 8).
    """
    due: deque[datetime] = deque()
    following: datetime | None = None
    for instant in _times(entry):
        if instant > now or len(due) == MOST_PER_PASS:
            following = instant
            break
        due.append(instant)
    chosen = _chosen(entry, due, now)
    occurrences = _overlapping(entry, due, chosen)
    return Plan(
        _merged(occurrences),
        following,
        entry.overlap == "cancel_previous" and entry.is_running and bool(chosen),
        following is not None and following <= now,
    )


def _times(entry: Entry) -> Iterator[datetime]:
    yield entry.next_run_at
    yield from parse(entry.expression, entry.timezone).iter_after(entry.next_run_at)


def _chosen(entry: Entry, due: deque[datetime], now: datetime) -> dict[datetime, bool]:
    """The times that are to run: those on time, and of the missed ones what the catch-up policy takes.

    The window is counted back from where on time ends, so that an hour's window holds sixty missed minutes.
    """
    on_time = [instant for instant in due if now - instant <= ON_TIME]
    oldest = now - ON_TIME - timedelta(seconds=entry.catch_up_window_seconds)
    missed = [instant for instant in due if oldest <= instant and now - instant > ON_TIME]
    most = {"one": 1, "all": MOST_CAUGHT_UP, "none": 0}[entry.catch_up]
    return dict.fromkeys((missed[-most:] if most else []) + on_time, True)


def _overlapping(entry: Entry, due: deque[datetime], chosen: dict[datetime, bool]) -> list[Occurrence]:
    """Applies the overlap policy in order of time; a job fired here counts as running for those after it."""
    is_running = entry.is_running
    newest = next(reversed(chosen), None)
    occurrences = []
    for instant in due:
        if instant not in chosen:
            occurrences.append(Occurrence(instant, "skipped", "missed"))
        elif entry.overlap == "allow" or (entry.overlap == "cancel_previous" and instant == newest):
            occurrences.append(Occurrence(instant, "fired"))
        elif entry.overlap == "cancel_previous":
            occurrences.append(Occurrence(instant, "skipped", "overlap"))
        elif not is_running:
            occurrences.append(Occurrence(instant, "fired"))
            is_running = True
        elif entry.overlap == "buffer_one" and instant == newest:
            occurrences.append(Occurrence(instant, "buffered"))
        else:
            occurrences.append(Occurrence(instant, "skipped", "overlap"))
    return occurrences


def _merged(occurrences: list[Occurrence]) -> list[Occurrence]:
    """Keeps the newest 100 skipped rows as they are, and makes one row of each older run with one reason (C20)."""
    skipped = sum(occurrence.status == "skipped" for occurrence in occurrences)
    merged: list[Occurrence] = []
    for occurrence in occurrences:
        if occurrence.status != "skipped":
            merged.append(occurrence)
            continue
        skipped -= 1
        last = merged[-1] if merged else None
        if (
            skipped >= MOST_SKIPPED_ROWS
            and last is not None
            and last.reason == occurrence.reason
            and last.status == "skipped"
        ):
            merged[-1] = Occurrence(last.nominal_at, "skipped", last.reason, occurrence.nominal_at, last.count + 1)
        else:
            merged.append(occurrence)
    return merged
