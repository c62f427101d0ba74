"""The next ten times of a schedule that is being typed, or what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice

from app.cron import CronError, describe
from app.cron_entries import Entry
from app.cron_entries.definition import check_bounds
from app.cron_entries.schedule import offset_ms
from app.dashboard import cron_form
from app.dashboard.cron_words import SHOWN, Time
from app.dashboard.form_errors import FormRefused, told
from app.errors import InvalidRequest
from app.models.cron import MAX_JITTER_SECONDS
from app.occurrences import times_after

NAMES = ("cron_expression", "timezone", "starts_at", "ends_at", "jitter_seconds")


@dataclass(frozen=True)
class Preview:
    """`errors` are by field of the form. `jitter_seconds` stands in while an entry has no offset yet, being new."""

    words: str = ""
    timezone: str = "UTC"
    times: list[Time] = field(default_factory=list)
    jitter_seconds: int = 0
    errors: dict[str, str] = field(default_factory=dict)


def preview(given: Mapping[str, str], now: datetime, entry: Entry | None = None) -> Preview | None:
    """None while no schedule has been typed. `entry` is the one that is edited."""
    fields = {name: given.get(name, "") for name in NAMES}
    expression, timezone = fields["cron_expression"].strip(), fields["timezone"].strip() or "UTC"
    if not expression:
        return None
    try:
        starts_at, ends_at, jitter_seconds = cron_form.read_bounds(fields, entry)
        check_bounds(starts_at, ends_at)
        if jitter_seconds > MAX_JITTER_SECONDS:
            raise FormRefused({"jitter_seconds": f"It takes 0 to {MAX_JITTER_SECONDS:,}."})
        nominal = list(islice(times_after(expression, timezone, now, starts_at, ends_at), SHOWN))
        words = describe(expression)
    except CronError as error:
        return Preview(errors={error.field: str(error)})
    except FormRefused as refused:
        return Preview(errors=refused.errors)
    except InvalidRequest as refused:
        return Preview(errors=told(refused, "cron_expression"))
    offset = timedelta(milliseconds=0 if entry is None else offset_ms(entry.id, jitter_seconds))
    times = [Time(instant, instant + offset) for instant in nominal]
    return Preview(words, timezone, times, jitter_seconds if entry is None else 0)
