"""How cron entries read on a page: their state, policies, schedule and outcomes in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from app.cron import CronError, describe
from app.cron.zones import load_zone
from app.cron_entries import Entry
from app.cron_entries.listing import Outcome, Summary
from app.dashboard import formats
from app.occurrences import times_after

OVERLAP = {
    "allow": ("Run all the same", "A job is made at each time, however many are running."),
    "skip": ("Skip it", "Nothing is made at that time; it is on record as skipped."),
    "buffer_one": (
        "Keep one waiting",
        "The job is made when the last one ends. A newer time takes the place of an older one.",
    ),
    "cancel_previous": (
        "Cancel the last one",
        "If the last job waits, it is cancelled; if it is being delivered, it gets no retry. The new one starts at once.",
    ),
}
CATCH_UP = {
    "one": ("Run the newest", "Of the times missed within the window, the newest is run."),
    "all": ("Run all", "The times missed within the window are run, oldest first: the newest 100."),
    "none": ("Run none", "Missed times are only on record."),
}
REASONS = {
    "overlap": "the last job was running",
    "missed": "no scheduler was there in time, and catch-up left it out",
    "paused": "the entry was paused",
    "changed": "the schedule was changed before it was fired",
    "error": "the next time could not be computed",
}
SHOWN = 10


@dataclass(frozen=True, slots=True)
class Time:
    """A time to come: as the expression names it, and with the entry's offset."""

    nominal_at: datetime
    due_at: datetime


def state(entry: Entry | Summary) -> str:
    """enabled, paused, disabled (by an error), or ended: no time is left."""
    if entry.disabled_reason is not None:
        return "disabled"
    if not entry.enabled:
        return "paused"
    return "enabled" if entry.next_run_at is not None else "ended"


def schedule(expression: str) -> str:
    """The expression in words, or as it is when it cannot be read any more."""
    try:
        return describe(expression)
    except CronError:
        return expression


def reason(name: str | None) -> str:
    """Why a time was skipped."""
    return REASONS.get(name or "", name or "")


def strip(outcomes: Sequence[Outcome]) -> list[tuple[str, str, str | None]]:
    """For the macro of that name: outcome, words, and the job's id in place of an address."""
    return [
        (_outcome(outcome), _words(outcome), None if outcome.job_status is None else str(outcome.job_id))
        for outcome in outcomes
    ]


def next_times(entry: Entry, count: int = SHOWN) -> list[Time]:
    """The times to come of an enabled entry, its next one first; none when it has none or cannot be computed."""
    if not entry.enabled or entry.next_run_at is None:
        return []
    try:
        after = entry.next_run_at - timedelta.resolution
        times = times_after(entry.expression, entry.timezone, after, entry.starts_at, entry.ends_at)
        return [Time(instant, instant + entry.offset) for instant in islice(times, count)]
    except CronError:
        return []


def zone(name: str) -> ZoneInfo:
    """The zone of an entry; UTC when its name has become none."""
    try:
        return load_zone(name)
    except CronError:
        return load_zone("UTC")


def _outcome(outcome: Outcome) -> str:
    if outcome.status != "fired":
        return outcome.status
    return outcome.job_status or "fired"


def _words(outcome: Outcome) -> str:
    at = f"{outcome.nominal_at:%Y-%m-%d %H:%M} UTC"
    if outcome.status == "skipped":
        many = f"{outcome.count:,} times from " if outcome.count > 1 else ""
        return f"{many}{at}: skipped, {reason(outcome.reason)}"
    if outcome.status == "buffered":
        return f"{at}: waits for the last job to end"
    return f"{at}: {outcome.job_status or 'fired, its job is no longer kept'}"


def in_zone(instant: datetime, name: str) -> str:
    """Tue 1 Dec 2026, 11:00 +01:00; with seconds where there are some, as in offsets of long ago."""
    local = instant.astimezone(zone(name))
    offset = f"{local:%z}"
    shown = formats.full(local, zone(name)).removesuffix(":00")
    return f"{local:%a} {shown} {offset[:3]}:{offset[3:5]}"
