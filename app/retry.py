"""When a failed attempt is followed by another: the policy's backoff, what the receiver asks for, and when to stop."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

MAX_ASKED_SECONDS = 86_400.0
# Receivers that are out of breath, and those that never answered, are left alone for at least this long.
MIN_PAUSE_SECONDS = 1.0
BUSY_STATUSES = (429, 503)
GONE_STATUS = 410
# From here on a reset time cannot be a span (it would be 31 years): it is an instant, in seconds or milliseconds.
EPOCH_SECONDS_FROM = 10**9
EPOCH_MILLISECONDS_FROM = 10**12

Headers = Mapping[str, str] | Iterable[tuple[str, str]]

_WHITESPACE = " \t"
_DIGITS = re.compile(r"[0-9]+")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_LONG_DAY = "(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
_MONTH = f"(?P<month>{'|'.join(_MONTHS)})"
_TIME = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
# RFC 9110, section 5.6.7: the form of today, and the two a recipient must still take.
_HTTP_DATES = (
    re.compile(rf"{_DAY}, (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} GMT"),
    re.compile(rf"{_LONG_DAY}, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} GMT"),
    re.compile(rf"{_DAY} {_MONTH} (?P<day>[0-9]{{2}}| [0-9]) {_TIME} (?P<year>[0-9]{{4}})"),
)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to wait after each failed attempt. Spans are seconds.

    `exponential`: base x factor^(attempt - 1). `linear`: base x attempt. Neither waits longer than max_seconds.
    `fixed`: base. `list`: delays, the last one again and again; max_seconds does not shorten what was listed.
    Jitter makes of a delay d: `full` 0 to d, `half` d/2 to d, `none` d.
    The default is design.md's: min(900, 2^(attempt - 1)), between half and whole.
    """

    backoff: Literal["exponential", "linear", "fixed", "list"] = "exponential"
    base_seconds: float = 1.0
    factor: float = 2.0
    max_seconds: float = 900.0
    jitter: Literal["full", "half", "none"] = "half"
    delays: tuple[float, ...] = ()
    give_up_after_seconds: float | None = None


DEFAULT_POLICY = RetryPolicy()


@dataclass(frozen=True, slots=True)
class RetryAt:
    """Try again this long after now."""

    delay_seconds: float


@dataclass(frozen=True, slots=True)
class Stop:
    """No further attempt: the job is dead. `reason` is a sentence for its owner."""

    reason: str


def next_attempt(
    policy: RetryPolicy,
    attempt: int,
    max_attempts: int,
    *,
    status_code: int | None,
    error_class: str | None,
    headers: Headers,
    first_due_at: datetime,
    now: datetime,
    rand: float,
) -> RetryAt | Stop:
    """What follows attempt number `attempt` (from 1), which failed.

    1. The receiver may end it: status 410, or `X-Job-No-Retry: true`.
    2. `max_attempts` ends it.
    3. The delay is the policy's; on 429 and 503 what the receiver asks for replaces it, if it says something usable.
    4. The policy's give_up_after_seconds, counted from `first_due_at`, ends it when the next attempt would come later.

    `rand` is in [0, 1). Never raises for a policy that cannot be computed: the default's delay stands in, so that the
    job stays retryable.
    """
    fields = _by_name(headers)
    if status_code == GONE_STATUS:
        return Stop("The receiver answered 410 Gone: it wants no further attempt.")
    if any(value.strip(_WHITESPACE).lower() == "true" for value in fields.get("x-job-no-retry", ())):
        return Stop("The receiver answered with X-Job-No-Retry: true: it wants no further attempt.")
    if attempt >= max_attempts:
        return Stop(f"The job has used all of its attempts ({max_attempts}).")
    delay_seconds = _delay_or_default(policy, attempt, rand)
    if status_code in BUSY_STATUSES:
        asked = _asked_seconds(fields, now)
        delay_seconds = delay_seconds if asked is None else asked
    if status_code in BUSY_STATUSES or error_class == "timeout":
        delay_seconds = max(delay_seconds, MIN_PAUSE_SECONDS)
    limit = policy.give_up_after_seconds
    if limit is not None and (now - first_due_at).total_seconds() + delay_seconds > limit:
        return Stop(
            f"The next attempt would come more than {limit:g} s after the job was first due, where it gives up."
        )
    return RetryAt(delay_seconds)


def planned_delay(policy: RetryPolicy, attempt: int) -> float:
    """Seconds to wait after failed attempt `attempt` (from 1), before jitter. Any attempt number is safe.

    Raises ValueError for a policy that gives no usable delay (an empty list, a NaN, something negative).
    """
    match policy.backoff:
        case "exponential":
            seconds = min(policy.max_seconds, _exponential(policy, attempt))
        case "linear":
            seconds = min(policy.max_seconds, policy.base_seconds * attempt)
        case "fixed":
            seconds = policy.base_seconds
        case "list":
            if not policy.delays:
                raise ValueError("The retry policy lists no delays.")
            seconds = policy.delays[min(attempt, len(policy.delays)) - 1]
        case _:
            raise ValueError(f"The retry policy's backoff {policy.backoff!r} is not known.")
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"The retry policy gives no usable delay after attempt {attempt}.")
    return float(seconds)


def delay(policy: RetryPolicy, attempt: int, rand: float) -> float:
    """`planned_delay` with the policy's jitter; `rand` is in [0, 1)."""
    planned_seconds = planned_delay(policy, attempt)
    match policy.jitter:
        case "full":
            return planned_seconds * rand
        case "half":
            return planned_seconds * (0.5 + rand / 2)
        case "none":
            return planned_seconds
    raise ValueError(f"The retry policy's jitter {policy.jitter!r} is not known.")


def planned(policy: RetryPolicy, max_attempts: int) -> list[float]:
    """The waits before attempts 2, 3, … to `max_attempts`, before jitter, as far as give_up_after_seconds lets them.

    Raises ValueError as `planned_delay` does.
    """
    waits: list[float] = []
    total_seconds = 0.0
    limit = policy.give_up_after_seconds
    for attempt in range(1, max_attempts):
        wait_seconds = planned_delay(policy, attempt)
        total_seconds += wait_seconds
        if limit is not None and total_seconds > limit:
            break
        waits.append(wait_seconds)
    return waits


def retry_after(value: str, now: datetime) -> float | None:
    """Seconds that a Retry-After header asks for: whole seconds, or an HTTP date that is not past (RFC 9110, 10.2.3).

    At most MAX_ASKED_SECONDS; None for what is neither.
    """
    text = value.strip(_WHITESPACE)
    if _DIGITS.fullmatch(text):
        return min(float(_whole_number(text)), MAX_ASKED_SECONDS)
    instant = _http_date(text, now)
    return None if instant is None else _until(instant, now)


def reset_after(headers: Headers, now: datetime) -> float | None:
    """Seconds that RateLimit-Reset or X-RateLimit-Reset asks for, in that order; None when neither says.

    As `retry_after`, and a number too large for a span is an instant: Unix seconds, or milliseconds.
    """
    fields = _by_name(headers)
    for value in (*fields.get("ratelimit-reset", ()), *fields.get("x-ratelimit-reset", ())):
        seconds = _reset_seconds(value.strip(_WHITESPACE), now)
        if seconds is not None:
            return seconds
    return None


def _reset_seconds(text: str, now: datetime) -> float | None:
    if not _DIGITS.fullmatch(text) or (number := _whole_number(text)) < EPOCH_SECONDS_FROM:
        return retry_after(text, now)
    unix_seconds = number / 1000 if number >= EPOCH_MILLISECONDS_FROM else number
    remaining_seconds = unix_seconds - now.timestamp()
    return None if remaining_seconds < 0 else min(remaining_seconds, MAX_ASKED_SECONDS)


def _asked_seconds(fields: Mapping[str, tuple[str, ...]], now: datetime) -> float | None:
    for value in fields.get("retry-after", ()):
        seconds = retry_after(value, now)
        if seconds is not None:
            return seconds
    return reset_after(((name, value) for name, values in fields.items() for value in values), now)


def _by_name(headers: Headers) -> dict[str, tuple[str, ...]]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    fields: dict[str, tuple[str, ...]] = {}
    for name, value in pairs:
        fields[name.lower()] = (*fields.get(name.lower(), ()), value)
    return fields


def _delay_or_default(policy: RetryPolicy, attempt: int, rand: float) -> float:
    try:
        return delay(policy, attempt, rand)
    except (ArithmeticError, TypeError, ValueError):
        return delay(DEFAULT_POLICY, attempt, rand)


def _exponential(policy: RetryPolicy, attempt: int) -> float:
    try:
        return policy.base_seconds * float(policy.factor) ** (attempt - 1)
    except OverflowError:
        return math.inf if policy.base_seconds > 0 else 0.0


def _whole_number(digits: str) -> int:
    """The number, or one beyond every limit: int() refuses thousands of digits."""
    significant = digits.lstrip("0") or "0"
    return int(significant) if len(significant) <= 300 else 10**300


def _http_date(text: str, now: datetime) -> datetime | None:
    """The instant an HTTP date names, or None. A two-digit year is never more than 50 years ahead (RFC 9110, 5.6.7)."""
    found = next(filter(None, (form.fullmatch(text) for form in _HTTP_DATES)), None)
    if found is None:
        return None
    if len(found["year"]) == 4:
        return _instant(found, int(found["year"]))
    this_century = now.year // 100 * 100 + int(found["year"])
    candidates = (_instant(found, this_century + shift) for shift in (100, 0, -100))
    return next((instant for instant in candidates if instant is not None and _within_50_years(instant, now)), None)


def _within_50_years(instant: datetime, now: datetime) -> bool:
    return (instant.year - 50, *instant.timetuple()[1:6]) <= now.astimezone(UTC).timetuple()[:6]


def _instant(found: re.Match[str], year: int) -> datetime | None:
    month = _MONTHS.index(found["month"]) + 1
    second = int(found["second"])
    try:
        start = datetime(year, month, int(found["day"]), int(found["hour"]), int(found["minute"]), tzinfo=UTC)
        # A leap second is legal here and unknown to datetime.
        return start + timedelta(seconds=second) if second <= 60 else None
    except (ValueError, OverflowError):
        return None


def _until(instant: datetime, now: datetime) -> float | None:
    remaining_seconds = (instant - now).total_seconds()
    return None if remaining_seconds < 0 else min(remaining_seconds, MAX_ASKED_SECONDS)
