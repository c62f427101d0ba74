"""A cron expression in plain English. cron-descriptor finds the words; what it is given decides whether they are true."""

from calendar import day_name
from functools import lru_cache
from itertools import pairwise

from cron_descriptor import ExpressionDescriptor, Options

from app.cron.fields import CronFields, read_expression


@lru_cache(maxsize=4096)
def describe(expression: str) -> str:
    """What the expression means, such as "At 02:30 AM", without a time zone. Raises CronError.

    cron-descriptor gets the values, not the text: it does not know that `*/7` starts anew each month, that 7-2 is a
    range or that a field with a leading * is ANDed, and it would say so wrongly.
    """
    fields = read_expression(expression)
    days, weekdays, both = _day_texts(fields)
    text = f"{_minutes(fields.minutes)} {_hours(fields)} {days} {_runs(fields.months, 12)} {weekdays}"
    # The locale is given: left out, it is the host's, with a warning where there is none.
    options = Options(locale_code="en_US", use_24hour_time_format=False)
    return f"{ExpressionDescriptor(text, options)}{both}"


def _day_texts(fields: CronFields) -> tuple[str, str, str]:
    """The two day fields for cron-descriptor, which takes them as alternatives, and our own words for when both must hold."""
    every_day, every_weekday = len(fields.days) == 31, len(fields.weekdays) == 7
    if not fields.are_days_anded:
        if every_day or every_weekday:
            return "*", "*", ""
        # Never a range here: of "1-5" it makes "Monday through Friday", and its "or" is lost.
        return _runs(fields.days, 31), _list(fields.weekdays), ""
    if every_day or every_weekday:
        return _runs(fields.days, 31), _runs(fields.weekdays, 7), ""
    return _runs(fields.days, 31), "*", f", but only if that day is a {_either(fields.weekdays)}"


def _minutes(minutes: tuple[int, ...]) -> str:
    return _even_step(minutes, 60) or _runs(minutes, 60)


def _hours(fields: CronFields) -> str:
    hours = fields.hours
    if len(hours) == 24:
        return "*"
    if len(fields.minutes) == 1:
        # Of several ranges it would say the bounds and lose the minute.
        is_one_run = len(hours) > 2 and hours[-1] - hours[0] == len(hours) - 1
        even_step = _even_step(hours, 24) if len(hours) > 2 else ""
        return even_step or (_runs(hours, 24) if is_one_run else _list(hours))
    # "Every minute, at 08:00 AM" is not what `* 8` does; the range 8-8 becomes "between 08:00 AM and 08:59 AM".
    return ",".join(f"{first}-{last}" for first, last in _split_runs(hours))


def _even_step(values: tuple[int, ...], size: int) -> str:
    """`*` or `*/n` when the values go round the clock without a seam; else empty."""
    if len(values) == size:
        return "*"
    step = size // len(values)
    return f"*/{step}" if len(values) > 1 and values == tuple(range(0, size, step)) else ""


def _runs(values: tuple[int, ...], size: int) -> str:
    """`*` for all, else a list in which three or more in a row are a range."""
    if len(values) == size:
        return "*"
    parts: list[str] = []
    for first, last in _split_runs(values):
        parts += [f"{first}-{last}"] if last - first > 1 else map(str, range(first, last + 1))
    return ",".join(parts)


def _split_runs(values: tuple[int, ...]) -> list[tuple[int, int]]:
    gaps = [(a, b) for a, b in pairwise(values) if b - a > 1]
    firsts = [values[0], *(b for _, b in gaps)]
    lasts = [*(a for a, _ in gaps), values[-1]]
    return list(zip(firsts, lasts, strict=True))


def _list(values: tuple[int, ...]) -> str:
    return ",".join(map(str, values))


def _either(weekdays: tuple[int, ...]) -> str:
    names = [day_name[(weekday - 1) % 7] for weekday in weekdays]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
