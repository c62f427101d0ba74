"""When an entry runs: reading its expression, its next time, its offset, and a preview."""

from __future__ import annotations

import hashlib
from datetime import datetime
from itertools import islice

from sqlalchemy import Connection, Engine, text

from app.cron import CronError, Schedule, describe, parse
from app.database import autocommit
from app.errors import invalid
from app.occurrences import times_after

NOW = text("SELECT punctual_now()")


def db_time(conn: Connection) -> datetime:
    """PostgreSQL's time (C1)."""
    now: datetime = conn.execute(NOW).scalar_one()
    return now


def read_schedule(expression: str, timezone: str) -> Schedule:
    """The schedule. Raises InvalidRequest, which names the field at fault."""
    try:
        return parse(expression, timezone)
    except CronError as error:
        raise invalid(error.field, str(error)) from None


def next_after(
    expression: str, timezone: str, now: datetime, starts_at: datetime | None = None, ends_at: datetime | None = None
) -> datetime:
    """The first time after `now` and within the bounds. Raises InvalidRequest when the schedule has none, or cannot be read."""
    read_schedule(expression, timezone)
    following = next(times_after(expression, timezone, now, starts_at, ends_at), None)
    if following is not None:
        return following
    if ends_at is not None:
        raise invalid("ends_at", "the schedule names no time from now until then.")
    raise invalid("cron_expression", "it names no time from now to the year 9998.")


def offset_ms(entry_id: int, jitter_seconds: int) -> int:
    """By how much later than its nominal times an entry runs, below `jitter_seconds`: always the same, and spread evenly."""
    if not jitter_seconds:
        return 0
    return int.from_bytes(hashlib.sha256(b"cron entry %d" % entry_id).digest()[:8], "big") % (jitter_seconds * 1000)


def preview(
    engine: Engine, expression: str, timezone: str, after: datetime | None, count: int
) -> tuple[list[datetime], str]:
    """The next `count` times after `after` (None: PostgreSQL's now), and the expression in words. Raises InvalidRequest."""
    schedule = read_schedule(expression, timezone)
    words = describe(expression)
    if after is None:
        with autocommit(engine) as conn:
            after = db_time(conn)
    return list(islice(schedule.iter_after(after), count)), words
