"""The times of random expressions around the changes of many zones, against a walk over every minute of their clocks.

Nothing here comes from app.cron but `parse`: the random fields know their values without reading them back, and changes
of offset are found by asking zoneinfo, hour by hour and then second by second.
"""

import struct
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib.resources import files
from itertools import pairwise
from random import Random
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter

from app.cron import TIMEZONE_NAMES, parse

HOUR = 3600
WALK_DAYS = 300

# A zone, and a day on which its clock changes.
CHANGES = [
    ("America/New_York", "2026-03-08"),
    ("America/New_York", "2026-11-01"),
    ("Europe/Berlin", "2026-10-25"),
    ("Europe/Dublin", "2026-10-25"),  # winter is the exception there
    ("Australia/Lord_Howe", "2026-04-05"),  # half an hour
    ("Pacific/Chatham", "2026-09-27"),  # at 02:45
    ("Antarctica/Troll", "2026-03-29"),  # two hours
    ("America/Sao_Paulo", "2018-11-04"),  # at midnight
    ("America/Sao_Paulo", "2018-02-18"),
    ("America/Havana", "2026-11-01"),  # back to midnight
    ("Africa/Cairo", "2025-04-25"),
    ("Africa/Casablanca", "2026-02-15"),  # Ramadan
    ("Asia/Beirut", "2026-03-29"),
    ("Asia/Tehran", "2022-03-22"),
    ("America/St_Johns", "2010-11-07"),  # at 00:01
    ("Asia/Kathmandu", "1986-01-01"),  # a quarter of an hour
    ("Asia/Pyongyang", "2018-05-05"),
    ("America/Caracas", "2007-12-09"),
    ("Europe/Moscow", "2014-10-26"),
    ("America/Nuuk", "2024-03-31"),
    ("Antarctica/Casey", "2010-03-05"),  # three hours
    ("Pacific/Apia", "2011-12-30"),  # a day that never was
    ("Pacific/Kwajalein", "1993-08-21"),
    ("Pacific/Kwajalein", "1969-10-01"),  # most of a day twice
    ("Africa/Monrovia", "1972-01-07"),  # 44 minutes and 30 seconds
    ("Europe/Dublin", "1916-10-01"),  # back by 34 minutes and 39 seconds
    ("America/Juneau", "1867-10-19"),  # a whole day twice
    ("Asia/Manila", "1844-12-31"),
]


class Expression:
    """A random expression, with the values it was made from."""

    def __init__(self, random: Random) -> None:
        (minute, minutes), (hour, hours) = random_field(random, 0, 59), random_field(random, 0, 23)
        (day, days), (month, months), (weekday, weekdays) = (
            random_field(random, 1, 31),
            random_field(random, 1, 12) if random.random() < 0.3 else ("*", set(range(1, 13))),
            random_field(random, 0, 6),
        )
        if random.random() < 0.5:
            day, days, weekday, weekdays = "*", set(range(1, 32)), "*", set(range(7))
        self.text = f"{minute} {hour} {day} {month} {weekday}"
        self.times = {h * 60 + m for h in hours for m in minutes}
        self.follows_the_clock = minute[0] == "*" or hour[0] == "*" or len(minutes) == 60 or len(hours) == 24
        needs_both = day[0] == "*" or weekday[0] == "*"

        @cache
        def is_day(number: int) -> bool:
            at = date.fromordinal(number)
            matches = at.day in days, (at.weekday() + 1) % 7 in weekdays
            return at.month in months and (all(matches) if needs_both else any(matches))

        self.is_day: Callable[[int], bool] = is_day

    def names(self, minute: int) -> bool:
        """Minutes are counted from the first day of the calendar, on the wall clock."""
        return minute % 1440 in self.times and self.is_day(minute // 1440)


def random_field(random: Random, low: int, high: int) -> tuple[str, set[int]]:
    first, last = sorted(random.randint(low, high) for _ in range(2))
    step = random.randint(1, 7)
    every = range(low, high + 1)
    few = random.sample(every, random.randint(1, 3))
    return random.choice(
        [
            ("*", set(every)),
            (f"*/{step}", set(every[::step])),
            (str(first), {first}),
            (",".join(map(str, few)), set(few)),
            (f"{first}-{last}", set(range(first, last + 1))),
            (f"{low}-{high}/{step}", set(every[::step])),
            (f"{first}-{last}/{step},{few[0]}", set(range(first, last + 1, step)) | {few[0]}),
        ]
    )


@cache
def clock_runs(timezone: str, start: datetime) -> list[tuple[int, int, int]]:
    """(from, until, offset) of each stretch without a change: seconds, from and until as what a clock in UTC shows."""
    zone = ZoneInfo(timezone)
    begin = start.toordinal() * 86400

    def offset(second: int) -> int:
        shift = (start + timedelta(seconds=second - begin)).astimezone(zone).utcoffset()
        assert shift is not None
        return round(shift.total_seconds())

    runs: list[tuple[int, int, int]] = []
    since = begin
    for hour in range(begin, begin + WALK_DAYS * 86400, HOUR):
        if offset(hour) != offset(hour + HOUR):
            changed = next(s for s in range(hour, hour + HOUR + 1) if offset(s) != offset(hour))
            runs.append((since, changed, offset(hour)))
            since = changed
    runs.append((since, begin + WALK_DAYS * 86400, offset(since)))
    return runs


def walk(expression: Expression, timezone: str, start: datetime) -> Iterator[int]:
    """Every second, as a clock in UTC counts, at which the expression runs. May give one twice in a row."""
    shown_until = None
    for since, until, offset in clock_runs(timezone, start):
        wall, wall_end = since + offset, until + offset
        if shown_until is None:
            shown_until = wall
        skipped = range(-(-shown_until // 60), -(-wall // 60))
        if not expression.follows_the_clock and any(expression.names(minute) for minute in skipped):
            yield since
        for minute in range(-(-wall // 60), -(-wall_end // 60)):
            is_repeat = minute * 60 < shown_until
            if expression.names(minute) and (expression.follows_the_clock or not is_repeat):
                yield minute * 60 - offset
        shown_until = max(shown_until, wall_end)


def walked_times(expression: Expression, timezone: str, start: datetime) -> list[datetime]:
    """Up to 500 times from two days after `start`, by when the walk knows what the clock has shown."""
    times: list[datetime] = []
    begin = start.toordinal() * 86400
    for second in walk(expression, timezone, start):
        at = start + timedelta(seconds=second - begin)
        if second > begin + 2 * 86400 and (not times or times[-1] != at):
            times.append(at)
            if len(times) == 500:
                break
    return times


@pytest.mark.parametrize(("timezone", "change"), CHANGES, ids=lambda value: value)
def test_the_next_500_times_are_those_of_the_walk(timezone: str, change: str) -> None:
    random = Random(f"{timezone} {change}")
    start = datetime.fromisoformat(change).replace(tzinfo=UTC) - timedelta(days=5)
    for _ in range(12):
        expression = Expression(random)
        times = walked_times(expression, timezone, start)
        if not times:
            continue
        schedule = parse(expression.text, timezone)
        assert schedule.upcoming(start + timedelta(days=2), len(times)) == times, expression.text
        for _ in range(40):
            asked_at = start + timedelta(days=2, seconds=random.random() * 6 * 86400)
            following = next((at for at in times if at > asked_at), None)
            assert following is None or schedule.next_after(asked_at) == following, (expression.text, asked_at)


def test_wall_times_agree_with_croniter() -> None:
    random = Random(5)
    start = datetime(2027, 12, 30)
    for _ in range(60):
        text = Expression(random).text
        if any(
            len(set(item.partition("/")[0].split("-"))) == 1 and "-" in item for item in text.replace(",", " ").split()
        ):
            continue  # croniter takes 5-5 for the whole field
        dates = croniter(text, start, ret_type=datetime, implement_cron_bug=True)
        expected = [dates.get_next(datetime).replace(tzinfo=UTC) for _ in range(20)]
        assert parse(text, "UTC").upcoming(start.replace(tzinfo=UTC), 20) == expected, text


def test_no_two_changes_of_a_zone_overlap() -> None:
    """What app/cron/wall_clock.py takes for granted; a new tzdata must keep it."""
    for timezone in TIMEZONE_NAMES:
        changes = [(at, after - before) for at, before, after in offset_changes(timezone)]
        for (at, shift), (next_at, next_shift) in pairwise(changes):
            assert next_at - at > abs(shift) + abs(next_shift), timezone


def offset_changes(timezone: str) -> list[tuple[int, int, int]]:
    """(second, offset before, offset after) from the 64-bit part of a TZif file (RFC 9636)."""
    data = files("tzdata").joinpath("zoneinfo", *timezone.split("/")).read_bytes()
    is_ut, is_std, leaps, times, types, names = struct.unpack(">6l", data[20:44])
    start = 44 + times * 5 + types * 6 + names + leaps * 8 + is_std + is_ut
    *_, times, types, _ = struct.unpack(">6l", data[start + 20 : start + 44])
    body = data[start + 44 :]
    seconds = struct.unpack(f">{times}q", body[: times * 8])
    kinds = [0, *body[times * 8 : times * 9]]
    offsets = [struct.unpack(">l", body[times * 9 + kind * 6 :][:4])[0] for kind in kinds]
    return [(at, a, b) for at, (a, b) in zip(seconds, pairwise(offsets), strict=True) if a != b]
