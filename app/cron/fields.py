"""From the text of a cron expression to the values its five fields name, or to a refusal that helps."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from types import MappingProxyType

from croniter import CroniterBadDateError, croniter

from app.cron.error import CronError

MAX_LENGTH = 255

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "@hourly": "0 * * * *",
        "@daily": "0 0 * * *",
        "@weekly": "0 0 * * 0",
        "@monthly": "0 0 1 * *",
        "@yearly": "0 0 1 1 *",
    }
)


@dataclass(frozen=True, slots=True)
class CronFields:
    """What an expression names. Every value is sorted and in its field's range; Sunday is 0."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    follows_wall_clock: bool
    """The minute or hour field begins with `*` or names its whole range (cronie's MIN_STAR and HR_STAR)."""
    are_days_anded: bool
    """A day field begins with `*`, so a day must satisfy both of them; otherwise either is enough."""

    def fall_on(self, day: date) -> bool:
        """Whether the day fields (not the month) name this day."""
        is_day, is_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return (is_day and is_weekday) if self.are_days_anded else (is_day or is_weekday)


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    highest_written: int
    names: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return self.high - self.low + 1

    @property
    def allowed(self) -> str:
        also = f" or a name from {self.names[0]} to {self.names[-1]}" if self.names else ""
        return f"a number from {self.low} to {self.highest_written}{also}"


_MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_FIELDS = (
    _Field("minute", 0, 59, 59),
    _Field("hour", 0, 23, 23),
    _Field("day-of-month", 1, 31, 31),
    _Field("month", 1, 12, 12, _MONTH_NAMES),
    _Field("day-of-week", 0, 6, 7, _WEEKDAY_NAMES),
)
_ITEM = re.compile(r"(?:\*|(?P<first>[0-9]+|[A-Za-z]+)(?:-(?P<last>[0-9]+|[A-Za-z]+))?)(?:/(?P<step>[0-9]+))?")
_UNSUPPORTED = re.compile(r"[#?]|(?<![A-Z])(?:LW|[LWHR])(?![A-Z])", re.IGNORECASE)


@lru_cache(maxsize=4096)
def read_expression(expression: str) -> CronFields:
    """The fields of an expression or of one of the five aliases. Raises CronError."""
    texts = _split(expression)
    minutes, hours, days, months, weekdays = (_expand(f, text) for f, text in zip(_FIELDS, texts, strict=True))
    fields = CronFields(
        minutes,
        hours,
        days,
        months,
        weekdays,
        follows_wall_clock=any(t.startswith("*") for t in texts[:2]) or len(minutes) == 60 or len(hours) == 24,
        are_days_anded=texts[2].startswith("*") or texts[4].startswith("*"),
    )
    _refuse_if_it_never_comes(fields)
    return fields


def _split(expression: str) -> list[str]:
    if len(expression) > MAX_LENGTH:
        raise _refusal(
            f"The expression is longer than {MAX_LENGTH} characters. Write ranges and steps instead of lists."
        )
    # Before anything changes case or splits: some letters outside ASCII fold to ASCII ones, some are white space or digits.
    if not all(" " <= character <= "~" for character in expression):
        raise _refusal("Write the expression in plain ASCII on one line, its fields separated by spaces.")
    texts = expression.split()
    if texts and texts[0].startswith("@"):
        return _split_alias(expression.strip())
    if len(texts) != 5:
        raise _refusal(
            f"Write five fields (minute, hour, day-of-month, month, day-of-week), not {len(texts)};"
            ' "30 2 * * *" is every day at 02:30. There are no fields for seconds or years.'
        )
    return texts


def _split_alias(text: str) -> list[str]:
    alias = {"@midnight": "@daily", "@annually": "@yearly"}.get(text.lower())
    if alias is not None:
        raise _refusal(f"{_quote(text)} is not supported. Write {alias}, which means the same.")
    if text.lower() not in ALIASES:
        raise _refusal(f"{_quote(text)} is not supported. Write one of {', '.join(ALIASES)}, or five fields.")
    return ALIASES[text.lower()].split()


def _expand(field: _Field, text: str) -> tuple[int, ...]:
    values: set[int] = set()
    for item in text.split(","):
        values.update(_expand_item(field, item))
    return tuple(sorted(values))


def _expand_item(field: _Field, item: str) -> set[int]:
    match = _ITEM.fullmatch(item)
    if match is None:
        raise _unreadable(field, item)
    first, last, step_text = match["first"], match["last"], match["step"]
    step = 1 if step_text is None else int(step_text)
    if not 1 <= step <= field.size:
        raise _refusal(f"{field.name}: the step in {_quote(item)} must be from 1 to {field.size}.")
    if first is None:
        low, high = field.low, field.high
    elif last is None:
        # A number with a step runs to the end of the field, as in Quartz, Go's cron and croniter. 7/2 is 0/2.
        low = _value(field, first) % (field.high + 1)
        high = low if step_text is None else field.high
    else:
        low, high = _range(field, item, _value(field, first), _value(field, last))
    return {value % 7 if field.highest_written == 7 else value for value in range(low, high + 1, step)}


def _value(field: _Field, text: str) -> int:
    if text.upper() in field.names:
        return field.low + field.names.index(text.upper())
    if not text.isdigit() or not field.low <= int(text) <= field.highest_written:
        raise _unreadable(field, text)
    return int(text)


def _range(field: _Field, item: str, low: int, high: int) -> tuple[int, int]:
    # Sunday opens a week as 0 and closes one as 7, however it is written: FRI-SUN and 7-2 are both fine.
    if field.highest_written == 7 and low == 7 > high:
        low = 0
    if field.highest_written == 7 and high == 0 < low:
        high = 7
    if low > high:
        raise _refusal(
            f"{field.name}: the range {_quote(item)} runs backwards. Write {low}-{field.high},{field.low}-{high} instead."
        )
    return low, high


def _unreadable(field: _Field, item: str) -> CronError:
    if _UNSUPPORTED.search(item):
        return _refusal(
            f"{field.name}: {_quote(item)} is not supported, nor is any of # L W ? H R. Write {field.allowed}, or *."
        )
    return _refusal(
        f"{field.name}: cannot read {_quote(item)}. Write {field.allowed}; *, lists (1,2), ranges (1-5) and steps"
        f" (*/2) of them are fine."
    )


def _refuse_if_it_never_comes(fields: CronFields) -> None:
    """croniter gives up after 50 years; the rarest date there is, a leap day on one weekday, comes within 40."""
    days, months, weekdays = (",".join(map(str, v)) for v in (fields.days, fields.months, fields.weekdays))
    # From a fixed date, so that an expression is good or bad for ever.
    dates = croniter(f"0 0 {days} {months} {weekdays}", datetime(2000, 1, 1), day_or=not fields.are_days_anded)
    try:
        dates.get_next()
    except CroniterBadDateError:
        raise _refusal("The expression names a date that never comes. Change its day or its month.") from None


def _refusal(message: str) -> CronError:
    return CronError("cron_expression", message)


def _quote(text: str) -> str:
    return f'"{text}"' if len(text) <= 40 else f'"{text[:40]}…"'
