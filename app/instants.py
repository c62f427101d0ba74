"""Instants as text: RFC 3339 with an offset in, UTC with a Z out."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

# RFC 3339 section 5.6. A space for the T is a liberty the RFC leaves to applications; this one does not take it.
_INSTANT = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?(?:[Zz]|([+-])(\d{2}):(\d{2}))", re.ASCII
)
EXAMPLE = "2026-12-01T10:00:00Z"


def parse_instant(text: str) -> datetime:
    """The instant in UTC. Raises ValueError, with a sentence for the sender, for any other text.

    Digits beyond microseconds are rounded up: a job with this time is never early. Leap seconds (:60) are refused, since
    neither Python nor PostgreSQL can hold them.
    """
    match = _INSTANT.fullmatch(text)
    if match is None:
        raise ValueError(f"must be an RFC 3339 time with an offset, such as {EXAMPLE} or 2026-12-01T11:00:00+01:00")
    *calendar, fraction, sign, hours, minutes = match.groups()
    offset = timedelta(0)
    if sign is not None:
        if int(hours) > 23 or int(minutes) > 59:
            raise ValueError("has an offset that does not exist: it runs from -23:59 to +23:59")
        offset = timedelta(hours=int(hours), minutes=int(minutes)) * (-1 if sign == "-" else 1)
    try:
        local = datetime(*map(int, calendar), tzinfo=timezone(offset))  # type: ignore[arg-type,misc]
        return local.astimezone(UTC) + _fraction(fraction)
    except OverflowError:
        raise ValueError("lies outside the years 1 to 9999 in UTC") from None
    except ValueError:
        raise ValueError(f"names a day or a time of day that does not exist; an example is {EXAMPLE}") from None


def _fraction(digits: str | None) -> timedelta:
    if not digits:
        return timedelta(0)
    microseconds = int(digits[:6].ljust(6, "0"))
    return timedelta(microseconds=microseconds + bool(digits[6:].strip("0")))


def format_instant(instant: datetime) -> str:
    """`2026-12-01T10:00:00Z`, with a fraction of six digits only when it is not zero. Raises ValueError for a naive time."""
    if instant.tzinfo is None:
        raise ValueError("an instant needs a time zone")
    return instant.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def format_optional(instant: datetime | None) -> str | None:
    return None if instant is None else format_instant(instant)
