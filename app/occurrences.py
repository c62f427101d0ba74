"""What becomes of a cron entry's due times: which fire, which are skipped and why, and what comes next. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Literal

from app.cron import parse
from app.instants import format_instant

# C20: found up to this late, an occurrence is on time and no catch-up policy is asked.
ON_TIME = timedelta(seconds=60)
MOST_CAUGHT_UP = 100
# Skipped ones beyond this many at a time become one row with from, to and count.
MOST_SKIPPED_ROWS = 100
# More times than this between two passes are settled in several, so that a transaction stays short.
MOST_PER_PASS = 5_000
# What a pass leaves for the next when there are more: catch-up takes from the newest, and two can be on time.
KEPT_FOR_NEXT_PASS = MOST_CAUGHT_UP + 2

Reason = Literal["overlap", "missed", "paused", "changed", "error"]


@dataclass(frozen=True, slots=True)
class Entry:
    """What planning needs to know of a cron entry. `is_running`: its last job has not finished, retries included.

    `offset` is how much later than its nominal time each occurrence is due; no nominal time lies after `ends_at`.
    """

    expression: str
    timezone: str
    next_run_at: datetime
    overlap: str
    catch_up: str
    catch_up_window_seconds: int
    is_running: bool
    offset: timedelta = timedelta(0)
    ends_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One planned time, or `count` skipped ones up to `through_at`."""

    nominal_at: datetime
    status: Literal["fired", "buffered", "skipped"]
    reason: Reason | None = None
    through_at: datetime | None = None
    count: int = 1
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The due occurrences in order of time, and the nominal time that comes next (None: never again)."""

    occurrences: list[Occurrence] = field(default_factory=list)
    next_run_at: datetime | None = None
    cancels_previous: bool = False
    has_more: bool = False


def plan(entry: Entry, now: datetime) -> Plan:
    """Settles every time due at `now`. Raises app.cron.CronError for an entry that cannot be computed.

    The next time follows from the nominal time, never from now (section 8). `has_more`: ask again, with that time; what was
    settled so far is too old for any catch-up.
    """
    now -= entry.offset
    due, following = _due(entry, now, MOST_PER_PASS)
    if following is not None and following <= now:
        settled, rest = due[:-KEPT_FOR_NEXT_PASS], due[-KEPT_FOR_NEXT_PASS:]
        return Plan(merged([_skipped(instant, "missed") for instant in settled], 0), rest[0], has_more=True)
    chosen = _chosen(entry, due, now)
    cancels = entry.overlap == "cancel_previous" and entry.is_running and bool(chosen)
    return Plan(merged(_overlapping(entry, due, chosen)), following, cancels)


def skip_all(entry: Entry, now: datetime, reason: Reason, detail: str | None = None) -> Plan:
    """Every time due at `now` as skipped for one reason, such as a pause. Raises app.cron.CronError. `has_more`: as in `plan`."""
    now -= entry.offset
    due, following = _due(entry, now, MOST_PER_PASS)
    has_more = following is not None and following <= now
    if has_more:
        due, following = due[:-KEPT_FOR_NEXT_PASS], due[-KEPT_FOR_NEXT_PASS]
    rows = merged([_skipped(instant, reason, detail) for instant in due], 0 if has_more else MOST_SKIPPED_ROWS)
    return Plan(rows, following, has_more=has_more)


def times_after(
    expression: str, timezone: str, after: datetime, starts_at: datetime | None, ends_at: datetime | None
) -> Iterator[datetime]:
    """The nominal times later than `after`, from `starts_at` up to `ends_at`, both included. Raises app.cron.CronError."""
    if starts_at is not None and starts_at > after:
        after = starts_at - timedelta.resolution
    times = parse(expression, timezone).iter_after(after)
    return times if ends_at is None else takewhile(lambda instant: instant <= ends_at, times)


def _due(entry: Entry, now: datetime, most: int) -> tuple[list[datetime], datetime | None]:
    """Up to `most` nominal times that have come by `now`, and the one after them."""
    due: list[datetime] = []
    for instant in _times(entry):
        if instant > now or len(due) == most:
            return due, instant
        due.append(instant)
    return due, None


def _times(entry: Entry) -> Iterator[datetime]:
    yield entry.next_run_at
    yield from times_after(entry.expression, entry.timezone, entry.next_run_at, None, entry.ends_at)


def _chosen(entry: Entry, due: list[datetime], now: datetime) -> dict[datetime, bool]:
    """The times that are to run: those on time, and of the missed ones what the catch-up policy takes.

    The window is counted back from where on time ends, so that an hour's window holds sixty missed minutes.
    """
    on_time = [instant for instant in due if now - instant <= ON_TIME]
    oldest = now - ON_TIME - timedelta(seconds=entry.catch_up_window_seconds)
    missed = [instant for instant in due if oldest <= instant and now - instant > ON_TIME]
    most = {"one": 1, "all": MOST_CAUGHT_UP, "none": 0}[entry.catch_up]
    return dict.fromkeys((missed[-most:] if most else []) + on_time, True)


def _overlapping(entry: Entry, due: list[datetime], chosen: dict[datetime, bool]) -> list[Occurrence]:
    """Applies the overlap policy in order of time; a job fired here counts as running for those after it."""
    is_running = entry.is_running
    newest = next(reversed(chosen), None)
    occurrences = []
    for instant in due:
        if instant not in chosen:
            occurrences.append(_skipped(instant, "missed"))
        elif entry.overlap == "allow" or (entry.overlap == "cancel_previous" and instant == newest):
            occurrences.append(Occurrence(instant, "fired"))
        elif entry.overlap == "cancel_previous" and newest is not None:
            occurrences.append(_skipped(instant, "overlap", replaced_by(newest)))
        elif not is_running:
            occurrences.append(Occurrence(instant, "fired"))
            is_running = True
        elif entry.overlap == "buffer_one" and newest is not None:
            is_last = instant == newest
            occurrences.append(
                Occurrence(instant, "buffered") if is_last else _skipped(instant, "overlap", replaced_by(newest))
            )
        else:
            occurrences.append(_skipped(instant, "overlap"))
    return occurrences


def replaced_by(instant: datetime) -> str:
    """Why an occurrence that waited, or would have, does not run: a newer one took its place."""
    return f"Replaced by the one of {format_instant(instant)}."


def _skipped(instant: datetime, reason: Reason, detail: str | None = None) -> Occurrence:
    return Occurrence(instant, "skipped", reason, detail=detail)


def merged(occurrences: list[Occurrence], most: int = MOST_SKIPPED_ROWS) -> list[Occurrence]:
    """Keeps the newest `most` skipped rows as they are, and makes one row of each older run with one reason (C20)."""
    skipped = sum(occurrence.status == "skipped" for occurrence in occurrences)
    rows: list[Occurrence] = []
    for occurrence in occurrences:
        skipped -= occurrence.status == "skipped"
        last = rows[-1] if rows else None
        if (
            last is not None
            and skipped >= most
            and occurrence.status == last.status == "skipped"
            and (occurrence.reason, occurrence.detail) == (last.reason, last.detail)
        ):
            rows[-1] = replace(last, through_at=occurrence.nominal_at, count=last.count + 1)
        else:
            rows.append(occurrence)
    return rows
