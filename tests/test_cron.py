"""The times a schedule names: known cases, and what holds for every expression, zone and instant."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.cron import TIMEZONE_NAMES, parse

# Two lines a case: expression, zone, the instant asked from, what it shows; then the instants that follow, all in UTC.
KNOWN_TIMES = """
30 2 * * * | America/New_York | 2026-03-07T17:00 | a skipped wall time runs once, right after the jump
    2026-03-08T07:00 2026-03-09T06:30 2026-03-10T06:30 2026-03-11T06:30
30 1 * * * | America/New_York | 2026-10-31T16:00 | a repeated wall time runs once, in the first pass
    2026-11-01T05:30 2026-11-02T06:30 2026-11-03T06:30 2026-11-04T06:30
30 1 * * * | America/New_York | 2026-11-01T06:00 | asked inside the second pass: never a time already past
    2026-11-02T06:30 2026-11-03T06:30 2026-11-04T06:30 2026-11-05T06:30
* * * * * | America/New_York | 2026-11-01T06:30:15 | every minute, with seconds on the clock, second pass
    2026-11-01T06:31 2026-11-01T06:32 2026-11-01T06:33 2026-11-01T06:34
*/5 * * * * | Europe/Zurich | 2023-10-29T00:55 | wildcard minutes run through both passes
    2023-10-29T01:00 2023-10-29T01:05 2023-10-29T01:10 2023-10-29T01:15
30 * * * * | Europe/Helsinki | 2017-10-28T23:45 | hourly through the repeated hour
    2017-10-29T00:30 2017-10-29T01:30 2017-10-29T02:30 2017-10-29T03:30
0 * * * * | America/Los_Angeles | 2026-11-01T07:30 | hourly is not already done in the second pass
    2026-11-01T08:00 2026-11-01T09:00 2026-11-01T10:00 2026-11-01T11:00
0 20 * * * | Europe/Paris | 2022-10-29T22:00 | days after the change keep the wall time
    2022-10-30T19:00 2022-10-31T19:00 2022-11-01T19:00 2022-11-02T19:00
0 0 * * * | Europe/Warsaw | 2017-03-25T23:00 | midnight on the 23-hour day
    2017-03-26T22:00 2017-03-27T22:00 2017-03-28T22:00 2017-03-29T22:00
0 12 * * 0 | Europe/Berlin | 2022-03-24T11:00 | the change week is not lost
    2022-03-27T10:00 2022-04-03T10:00 2022-04-10T10:00 2022-04-17T10:00
0 0 * * 0-4 | America/Chicago | 2021-03-12T06:00 | weekday range across the change
    2021-03-14T06:00 2021-03-15T05:00 2021-03-16T05:00 2021-03-17T05:00
10 3 * * 0 | Europe/Prague | 2025-10-19T10:00 | weekly, before an autumn change
    2025-10-26T02:10 2025-11-02T02:10 2025-11-09T02:10 2025-11-16T02:10
0 1 4 11 * | America/Sao_Paulo | 2018-11-04T02:00 | a zone whose midnight does not exist
    2018-11-04T03:00 2019-11-04T04:00 2020-11-04T04:00 2021-11-04T04:00
0 0 * * * | America/Sao_Paulo | 2018-11-03T15:00 | midnight job where midnight does not exist
    2018-11-04T03:00 2018-11-05T02:00 2018-11-06T02:00 2018-11-07T02:00
0 */2 * * * | Africa/Cairo | 2025-04-24T19:10 | every two hours across a midnight gap
    2025-04-24T20:00 2025-04-24T23:00 2025-04-25T01:00 2025-04-25T03:00
30 23 * * * | America/Sao_Paulo | 2018-02-17T14:00 | a repeat just before midnight
    2018-02-18T01:30 2018-02-19T02:30 2018-02-20T02:30 2018-02-21T02:30
45 1 * * * | Australia/Lord_Howe | 2026-04-04T02:00 | a half-hour change
    2026-04-04T14:45 2026-04-05T15:15 2026-04-06T15:15 2026-04-07T15:15
0 * * * * | Australia/Lord_Howe | 2026-04-04T13:30 | hourly across a half-hour change
    2026-04-04T14:00 2026-04-04T15:30 2026-04-04T16:30 2026-04-04T17:30
50 2 * * * | Pacific/Chatham | 2026-04-03T22:15 | a change at 02:45
    2026-04-04T13:05 2026-04-05T14:05 2026-04-06T14:05 2026-04-07T14:05
30 1 * * * | Europe/Dublin | 2026-10-24T11:00 | negative DST
    2026-10-25T00:30 2026-10-26T01:30 2026-10-27T01:30 2026-10-28T01:30
30 1 * * * | Antarctica/Troll | 2026-03-28T12:00 | a two-hour change
    2026-03-29T01:00 2026-03-29T23:30 2026-03-30T23:30 2026-03-31T23:30
0 2,3 * * * | America/New_York | 2026-03-07T17:00 | two entries must not collapse into two jobs at one instant
    2026-03-08T07:00 2026-03-09T06:00 2026-03-09T07:00 2026-03-10T06:00
15,45 2 * * * | America/New_York | 2026-03-07T17:00 | two skipped times collapse into one
    2026-03-08T07:00 2026-03-09T06:15 2026-03-09T06:45 2026-03-10T06:15
*/20 1 * * * | America/New_York | 2026-10-31T16:00 | wildcard minute, fixed hour: both passes
    2026-11-01T05:00 2026-11-01T05:20 2026-11-01T05:40 2026-11-01T06:00
0 0-23 * * * | America/New_York | 2026-11-01T04:30 | a field that names its whole range counts as *
    2026-11-01T05:00 2026-11-01T06:00 2026-11-01T07:00 2026-11-01T08:00
0 16 */2 * SAT | UTC | 2026-01-02T00:00 | a day field that begins with * is ANDed
    2026-01-03T16:00 2026-01-17T16:00 2026-01-31T16:00 2026-02-07T16:00
0 16 1-31/2 * SAT | UTC | 2026-01-02T00:00 | otherwise the day fields are ORed
    2026-01-03T16:00 2026-01-05T16:00 2026-01-07T16:00 2026-01-09T16:00
0 0 1 * */2 | UTC | 2026-01-02T00:00 | weekday with a star step is ANDed
    2026-02-01T00:00 2026-03-01T00:00 2026-08-01T00:00 2026-09-01T00:00
0 0 29 2 * | UTC | 2026-01-02T00:00 | leap day
    2028-02-29T00:00 2032-02-29T00:00
0 0 */10 * * | UTC | 2021-02-15T00:00 | steps restart on the first of the month
    2021-02-21T00:00 2021-03-01T00:00 2021-03-11T00:00 2021-03-21T00:00
0 0 * * 5-7 | UTC | 2026-01-02T00:00 | 7 is Sunday, in ranges too
    2026-01-03T00:00 2026-01-04T00:00 2026-01-09T00:00 2026-01-10T00:00
0 0 * * * | Etc/GMT+5 | 2026-06-01T12:00 | Etc/GMT+5 means UTC-5
    2026-06-02T05:00 2026-06-03T05:00 2026-06-04T05:00 2026-06-05T05:00
0 12 * * * | Pacific/Apia | 2011-12-29T12:00 | a whole day that is skipped: its run comes right after the jump
    2011-12-29T22:00 2011-12-30T10:00 2011-12-30T22:00 2011-12-31T22:00
0 0 * * * | Pacific/Apia | 2011-12-29T12:00 | midnight of the skipped day and of the next are one instant
    2011-12-30T10:00 2011-12-31T10:00 2012-01-01T10:00
*/30 * * * * | Pacific/Apia | 2011-12-30T09:15 | half hours go on over the skipped day
    2011-12-30T09:30 2011-12-30T10:00 2011-12-30T10:30
15 0 * * * | Africa/Monrovia | 1972-01-06T12:00 | a jump of 44 minutes and 30 seconds
    1972-01-07T00:44:30 1972-01-08T00:15
*/15 * * * * | Africa/Monrovia | 1972-01-07T00:15 | offsets with seconds, then the jump
    1972-01-07T00:29:30 1972-01-07T00:45 1972-01-07T01:00
0 0 29 2 */7 | UTC | 2026-01-01T00:00 | leap days that are Sundays, over the year 2100
    2032-02-29T00:00 2060-02-29T00:00 2088-02-29T00:00 2128-02-29T00:00
0 0 31 2 MON | UTC | 2026-01-01T00:00 | a date that never comes beside a weekday that does
    2026-02-02T00:00 2026-02-09T00:00
"""


def known_times() -> Iterator[object]:
    lines = iter(KNOWN_TIMES.strip().splitlines())
    for line in lines:
        expression, timezone, after, shows = line.split(" | ")
        instants = [instant(text) for text in next(lines).split()]
        yield pytest.param(expression, timezone, instant(after), instants, id=f"{shows} ({after})")


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(("expression", "timezone", "after", "expected"), list(known_times()))
def test_the_times_that_follow(expression: str, timezone: str, after: datetime, expected: list[datetime]) -> None:
    assert parse(expression, timezone).upcoming(after, len(expected)) == expected


def test_every_time_zone_that_is_offered_works() -> None:
    assert len(TIMEZONE_NAMES) > 500
    for name in TIMEZONE_NAMES:
        assert len(parse("0 12 * * *", name).upcoming(instant("2026-01-01T00:00"), 2)) == 2


def test_the_calendar_ends_after_the_year_9998() -> None:
    schedule = parse("59 23 31 12 *", "Pacific/Kiritimati")
    last = instant("9998-12-31T09:59")
    assert schedule.upcoming(instant("9997-12-31T12:00"), 5) == [last]
    assert schedule.next_after(last) is None
    for timezone in ("UTC", "Pacific/Kiritimati", "Etc/GMT+12"):
        for expression in ("* * * * *", "30 2 * * *"):
            assert parse(expression, timezone).next_after(datetime.max.replace(tzinfo=UTC)) is None
            assert parse(expression, timezone).next_after(datetime.min.replace(tzinfo=UTC)) is not None


def test_a_naive_instant_is_refused() -> None:
    with pytest.raises(ValueError, match="aware"):
        parse("* * * * *", "UTC").next_after(datetime(2026, 1, 1))


def test_a_parsed_schedule_is_kept_and_can_be_a_key() -> None:
    schedule = parse("1 2 3 4 *", "Europe/Paris")
    assert parse("1 2 3 4 *", "Europe/Paris") is schedule
    assert {schedule: 1}[parse("1 2 3 4 *", "Europe/Paris")] == 1
    assert schedule != parse("1 2 3 4 *", "Europe/Rome")


@pytest.mark.parametrize("expression", ["* * * * *", "30 2 * * *", "0 0 29 2 */7", "0 0 31 2 MON", "*/7 1-3 */2 * 1,4"])
def test_ten_times_take_under_five_milliseconds_of_computing(expression: str) -> None:
    schedule = parse(expression, "America/New_York")

    def computing_seconds() -> float:
        started = time.thread_time()
        schedule.upcoming(instant("2026-03-01T00:00"), 10)
        return time.thread_time() - started

    assert min(computing_seconds() for _ in range(5)) < 0.005


def fields(low: int, high: int) -> st.SearchStrategy[str]:
    numbers = st.integers(low, high)
    ranges = st.tuples(numbers, numbers).map(lambda pair: f"{min(pair)}-{max(pair)}")
    lists = st.lists(st.one_of(numbers.map(str), ranges), min_size=1, max_size=3).map(",".join)
    steps = st.tuples(st.one_of(st.just("*"), ranges), st.integers(1, 7)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    return st.one_of(st.just("*"), lists, steps)


expressions = st.tuples(fields(0, 59), fields(0, 23), fields(1, 28), fields(1, 12), fields(0, 7)).map(" ".join)
timezones = st.sampled_from(sorted(TIMEZONE_NAMES))
instants = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
properties = settings(max_examples=150, derandomize=True, deadline=None)


@properties
@given(expressions, timezones, instants)
def test_each_time_is_later_than_the_last_and_the_same_when_asked_afresh(
    expression: str, timezone: str, after: datetime
) -> None:
    times = parse(expression, timezone).upcoming(after, 15)
    for earlier, later in zip([after, *times], times, strict=False):
        between = earlier + (later - earlier) / 3
        assert earlier < later
        assert parse(expression, timezone).next_after(between) == later
        assert parse(expression, timezone).next_after(later - timedelta.resolution) == later


@properties
@given(expressions, timezones, instants)
def test_each_time_is_on_the_wall_clock_or_right_after_a_jump(expression: str, timezone: str, after: datetime) -> None:
    zone = ZoneInfo(timezone)
    minutes, hours = (field.split(",") for field in expression.split()[:2])
    for run_at in parse(expression, timezone).upcoming(after, 15):
        wall = run_at.astimezone(zone)
        second_before = (run_at - timedelta(seconds=1)).astimezone(zone)
        is_right_after_a_jump = (wall.utcoffset() or timedelta()) > (second_before.utcoffset() or timedelta())
        is_named = wall.second == 0 and names(minutes, wall.minute) and names(hours, wall.hour)
        assert is_named or is_right_after_a_jump


def names(items: list[str], value: int) -> bool:
    for item in items:
        span, _, step = item.partition("/")
        low, _, high = ("0-59" if span == "*" else span).partition("-")
        if value in range(int(low), int(high or low) + 1, int(step or 1)):
            return True
    return False


@pytest.mark.parametrize("process_timezone", ["America/New_York", "Pacific/Apia", "UTC"])
def test_the_time_zone_of_the_process_does_not_matter(process_timezone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    after = instant("2026-10-24T11:00")
    expected = parse("*/30 1 * * *", "Europe/Dublin").upcoming(after, 8)
    monkeypatch.setenv("TZ", process_timezone)
    time.tzset()
    try:
        assert parse("*/30 1 * * *", "Europe/Dublin").upcoming(after, 8) == expected
    finally:
        monkeypatch.undo()
        time.tzset()
