"""Plain language: the words of known expressions, and every description read back and held against the times that follow."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from itertools import takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.cron import CronError, describe, parse

DESCRIPTIONS = [
    ("30 2 * * *", "At 02:30 AM"),
    ("@daily", "At 12:00 AM"),
    ("@hourly", "Every hour"),
    ("@weekly", "At 12:00 AM, only on Sunday"),
    ("@yearly", "At 12:00 AM, on day 1 of the month, only in January"),
    ("* * * * *", "Every minute"),
    ("*/5 * * * *", "Every 5 minutes"),
    ("*/25 * * * *", "At 0, 25, and 50 minutes past the hour"),
    ("* 8 * * *", "Every minute, between 08:00 AM and 08:59 AM"),
    ("* 8,17 * * *", "Every minute, at 08:00 AM through 08:59 AM and 05:00 PM through 05:59 PM"),
    ("0 9-17 * * MON-FRI", "At 0 minutes past the hour, between 09:00 AM and 05:59 PM, Monday through Friday"),
    ("0 8-10,14-16 * * *", "At 08:00 AM, 09:00 AM, 10:00 AM, 02:00 PM, 03:00 PM and 04:00 PM"),
    ("0 */2 * * *", "Every 2 hours"),
    ("0 */12 * * *", "At 12:00 AM and 12:00 PM"),
    ("0 0 * * 7", "At 12:00 AM, only on Sunday"),
    ("0 0 * * sat-sun", "At 12:00 AM, only on Sunday and Saturday"),
    ("0 0 */10 * *", "At 12:00 AM, on day 1, 11, 21, and 31 of the month"),
    ("0 0 1 */3 *", "At 12:00 AM, on day 1 of the month, only in January, April, July, and October"),
    ("0 0 13 * FRI", "At 12:00 AM, on day 13 of the month, or on Friday"),
    ("0 0 1-7 * 1-3", "At 12:00 AM, between day 1 and 7 of the month, or on Monday, Tuesday, and Wednesday"),
    (
        "0 0 1 * */2",
        "At 12:00 AM, on day 1 of the month, but only if that day is a Sunday, Tuesday, Thursday or Saturday",
    ),
    (
        "0 0 */15 6 SAT",
        "At 12:00 AM, on day 1, 16, and 31 of the month, only in June, but only if that day is a Saturday",
    ),
    ("0 0 1-31 * MON", "At 12:00 AM"),
    ("0 0 1 * 0-6", "At 12:00 AM"),
    ("0 0 */1 * MON", "At 12:00 AM, only on Monday"),
]


@pytest.mark.parametrize(("expression", "words"), DESCRIPTIONS)
def test_the_words(expression: str, words: str) -> None:
    assert describe(expression) == words


def test_what_cannot_be_read_is_not_described() -> None:
    with pytest.raises(CronError):
        describe("0 0 31 2 *")


WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MONTHS = ["January", "February", "March", "April", "May", "June"]
MONTHS += ["July", "August", "September", "October", "November", "December"]
TIME = r"\d\d:\d\d [AP]M"


def days_said(words: str) -> Callable[[date], bool]:
    """Which days a reader of these words would expect."""
    weekdays, months = named(WEEKDAYS, words), named(MONTHS, words)
    numbers: set[int] = set()
    for first, last in re.findall(
        r"(\d+)(?: (?:through|and) (\d+))?", clause(r"between day (.*?) of the month", words)
    ):
        numbers.update(range(int(first), int(last or first) + 1))
    for first, last in re.findall(r"(\d+)(?: through (\d+))?", clause(r"on day (.*?) of the month", words)):
        numbers.update(range(int(first), int(last or first) + 1))

    def is_said(day: date) -> bool:
        is_month = not months or day.month in months
        is_weekday, is_number = day.isoweekday() in weekdays, day.day in numbers
        if ", or on " in words:
            return is_month and (is_weekday or is_number)
        return is_month and (is_weekday or not weekdays) and (is_number or not numbers)

    return is_said


def named(names: list[str], words: str) -> set[int]:
    either = "|".join(names)
    numbers: set[int] = set()
    for first, last in re.findall(rf"({either})(?: through ({either}))?", words):
        numbers.update(range(names.index(first) + 1, names.index(last or first) + 2))
        if last and names.index(last) < names.index(first):
            numbers.update({7} | set(range(1, names.index(last) + 2)))
    return numbers


def clause(pattern: str, words: str) -> str:
    match = re.search(pattern, words)
    return match[1] if match else ""


def times_said(words: str) -> set[int]:
    """Which minutes of a day a reader of these words would expect."""
    words = re.split(rf", (?:on day|between day|only|or on|but|{'|'.join(WEEKDAYS + MONTHS)})", words)[0]
    clocks = [minute_of_day(text) for text in re.findall(TIME, words)]
    if re.match(rf"At {TIME}", words):
        return set(clocks)
    hours = set(range(24))
    if step := clause(r"very (\d+) hours", words):
        hours = set(range(0, 24, int(step)))
    elif clocks:
        hours = {m // 60 for first, last in zip(clocks[::2], clocks[1::2], strict=True) for m in range(first, last + 1)}
    return {hour * 60 + minute for hour in hours for minute in minutes_said(words)}


def minutes_said(words: str) -> set[int]:
    if words.startswith("Every minute"):
        return set(range(60))
    if step := clause(r"^Every (\d+) minutes", words):
        return set(range(0, 60, int(step)))
    listed = clause(r"^(?:At|Minutes) ([\d, andthroug]+) (?:minutes )?past the hour", words)
    if not listed:
        assert re.match(r"Every (\d+ )?hours?", words), words
        return {0}
    spans = re.findall(r"(\d+)(?: through (\d+))?", listed)
    return {minute for first, last in spans for minute in range(int(first), int(last or first) + 1)}


def minute_of_day(clock: str) -> int:
    at = datetime.strptime(clock, "%I:%M %p")
    return at.hour * 60 + at.minute


def fields(low: int, high: int) -> st.SearchStrategy[str]:
    numbers = st.integers(low, high)
    ranges = st.tuples(numbers, numbers).map(lambda pair: f"{min(pair)}-{max(pair)}")
    lists = st.lists(st.one_of(numbers.map(str), ranges), min_size=1, max_size=3).map(",".join)
    steps = st.tuples(st.sampled_from(["*", f"{low}-{high}"]), st.integers(1, 7)).map(
        lambda pair: f"{pair[0]}/{pair[1]}"
    )
    return st.one_of(st.just("*"), lists, steps)


read_back = settings(max_examples=120, derandomize=True, deadline=None)


@read_back
@given(fields(1, 28), st.one_of(st.just("*"), fields(1, 12)), fields(0, 7))
def test_the_days_described_are_the_days_that_follow(day: str, month: str, weekday: str) -> None:
    expression = f"0 12 {day} {month} {weekday}"
    is_said = days_said(describe(expression))
    start, end = datetime(2027, 1, 1, tzinfo=UTC), datetime(2029, 1, 1, tzinfo=UTC)
    days = {run_at.date() for run_at in takewhile(lambda at: at < end, parse(expression, "UTC").iter_after(start))}
    walked = (start.date() + timedelta(days=n) for n in range((end - start).days))
    assert days == {day for day in walked if is_said(day)}, describe(expression)


@read_back
@given(fields(0, 59), fields(0, 23))
def test_the_times_described_are_the_times_that_follow(minute: str, hour: str) -> None:
    expression = f"{minute} {hour} * * *"
    start, end = datetime(2026, 6, 30, 23, 59, tzinfo=UTC), datetime(2026, 7, 2, tzinfo=UTC)
    times = takewhile(lambda at: at < end, parse(expression, "UTC").iter_after(start))
    assert {at.hour * 60 + at.minute for at in times} == times_said(describe(expression)), describe(expression)
