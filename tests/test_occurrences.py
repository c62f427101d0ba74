"""What becomes of due times: catch-up, overlap, merging, offsets and bounds. Pure."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.cron import CronError
from app.occurrences import MOST_PER_PASS, Entry, Occurrence, Plan, merged, plan, skip_all, times_after

MINUTE = timedelta(minutes=1)
DAY_SECONDS = 24 * 3600
# The newest due time is half a minute late: on time.
NOW = datetime(2026, 3, 10, 12, 0, 30, tzinfo=UTC)
ON_THE_MINUTE = NOW.replace(second=0)


def entry(minutes: int = 0, **changes: Any) -> Entry:
    """Every minute, with overlap `allow`; the first unfired time was `minutes` before the newest one."""
    values: dict[str, Any] = {
        "expression": "* * * * *",
        "timezone": "UTC",
        "next_run_at": ON_THE_MINUTE - minutes * MINUTE,
        "overlap": "allow",
        "catch_up": "one",
        "catch_up_window_seconds": 3600,
        "is_running": False,
        **changes,
    }
    return Entry(**values)


def fired(made: Plan) -> list[datetime]:
    return [o.nominal_at for o in made.occurrences if o.status == "fired"]


def counts(made: Plan) -> Counter[tuple[str, str | None]]:
    found: Counter[tuple[str, str | None]] = Counter()
    for occurrence in made.occurrences:
        found[occurrence.status, occurrence.reason] += occurrence.count
    return found


@pytest.mark.parametrize(
    ("catch_up", "window_seconds", "caught_up"),
    [
        ("one", DAY_SECONDS, 1),
        ("all", DAY_SECONDS, 100),
        ("none", DAY_SECONDS, 0),
        ("one", 3600, 1),
        ("all", 3600, 60),
        ("none", 3600, 0),
        ("all", 0, 0),
        ("one", 0, 0),
    ],
)
def test_after_113_missed_minutes(catch_up: str, window_seconds: int, caught_up: int) -> None:
    made = plan(entry(113, catch_up=catch_up, catch_up_window_seconds=window_seconds), NOW)
    assert fired(made) == [ON_THE_MINUTE - n * MINUTE for n in range(caught_up, -1, -1)]
    assert counts(made) == Counter(
        {k: v for k, v in {("fired", None): caught_up + 1, ("skipped", "missed"): 113 - caught_up}.items() if v}
    )
    assert (made.next_run_at, made.has_more) == (ON_THE_MINUTE + MINUTE, False)


def test_up_to_a_minute_late_is_on_time() -> None:
    assert fired(plan(entry(catch_up="none"), ON_THE_MINUTE + timedelta(seconds=60)))
    late = ON_THE_MINUTE + timedelta(seconds=60, microseconds=1)
    daily = entry(expression="0 12 * * *", catch_up="none")
    assert counts(plan(daily, late)) == {("skipped", "missed"): 1}


@pytest.mark.parametrize("is_running", [False, True])
@pytest.mark.parametrize(
    ("overlap", "when_idle", "when_running"),
    [
        ("allow", "FFF", "FFF"),
        ("skip", "Fss", "sss"),
        ("buffer_one", "Fsb", "ssb"),
        ("cancel_previous", "ssF", "ssF"),
    ],
)
def test_each_overlap_policy(overlap: str, when_idle: str, when_running: str, is_running: bool) -> None:
    made = plan(entry(2, overlap=overlap, catch_up="all", is_running=is_running), NOW)
    letters = "".join({"fired": "F", "buffered": "b", "skipped": "s"}[o.status] for o in made.occurrences)
    assert letters == (when_running if is_running else when_idle)
    assert {o.reason for o in made.occurrences if o.status == "skipped"} <= {"overlap"}
    assert made.cancels_previous is (overlap == "cancel_previous" and is_running)


def test_what_makes_room_for_a_newer_one_says_so() -> None:
    made = plan(entry(1, overlap="buffer_one", catch_up="all", is_running=True), NOW)
    assert made.occurrences[0].detail == "Replaced by the one of 2026-03-10T12:00:00Z."


def test_an_entry_is_due_its_offset_later() -> None:
    one = entry(offset=timedelta(seconds=20, milliseconds=500))
    assert plan(one, ON_THE_MINUTE + timedelta(seconds=20)) == Plan(next_run_at=ON_THE_MINUTE)
    made = plan(one, ON_THE_MINUTE + timedelta(seconds=20, milliseconds=500))
    assert fired(made) == [ON_THE_MINUTE]
    assert made.next_run_at == ON_THE_MINUTE + MINUTE
    # On time is counted from the actual time too.
    assert fired(plan(entry(catch_up="none", offset=timedelta(minutes=59)), NOW + timedelta(minutes=59))) == [
        ON_THE_MINUTE
    ]


def test_nothing_is_planned_after_the_end() -> None:
    made = plan(entry(5, catch_up="all", ends_at=ON_THE_MINUTE - 3 * MINUTE), NOW)
    assert fired(made) == [ON_THE_MINUTE - n * MINUTE for n in (5, 4, 3)]
    assert (made.next_run_at, made.has_more) == (None, False)


def test_times_lie_between_their_bounds_both_included() -> None:
    start, end = ON_THE_MINUTE, ON_THE_MINUTE + 2 * MINUTE
    long_before = ON_THE_MINUTE - timedelta(days=1)
    assert list(times_after("* * * * *", "UTC", long_before, start, end)) == [start, start + MINUTE, end]
    assert list(times_after("* * * * *", "UTC", start, start, end)) == [start + MINUTE, end]
    assert list(times_after("* * * * *", "UTC", end, start, end)) == []


def test_an_entry_that_cannot_be_computed_says_so() -> None:
    for changes in ({"timezone": "Mars/Phobos"}, {"expression": "0 0 31 2 *"}):
        with pytest.raises(CronError):
            plan(entry(**changes), NOW)


def test_skipped_ones_beyond_a_hundred_are_one_row() -> None:
    made = plan(entry(250, catch_up="none"), NOW)
    first, *rest = [o for o in made.occurrences if o.status == "skipped"]
    assert (first.nominal_at, first.count) == (ON_THE_MINUTE - 250 * MINUTE, 150)
    assert first.through_at == ON_THE_MINUTE - 101 * MINUTE
    assert [o.count for o in rest] == [1] * 100
    assert rest[0].nominal_at == ON_THE_MINUTE - 100 * MINUTE


def test_rows_of_different_reasons_are_not_merged() -> None:
    rows = [
        Occurrence(ON_THE_MINUTE + n * MINUTE, "skipped", "missed" if n // 100 % 2 else "overlap") for n in range(400)
    ]
    assert [o.count for o in merged(rows)][:3] == [100, 100, 100]
    fired_between = [*rows[:50], Occurrence(ON_THE_MINUTE, "fired"), *rows[50:200]]
    assert [o.count for o in merged(fired_between)][:3] == [50, 1, 50]


@pytest.mark.parametrize("catch_up", ["one", "all", "none"])
def test_a_month_of_missed_minutes_is_settled_in_passes_and_caught_up_once(catch_up: str) -> None:
    minutes = 30 * 24 * 60
    one = entry(minutes, catch_up=catch_up, catch_up_window_seconds=365 * DAY_SECONDS)
    total: Counter[tuple[str, str | None]] = Counter()
    rows = passes = 0
    while True:
        made = plan(one, NOW)
        total += counts(made)
        rows, passes = rows + len(made.occurrences), passes + 1
        assert made.next_run_at is not None
        if not made.has_more:
            break
        one = entry(catch_up=catch_up, catch_up_window_seconds=365 * DAY_SECONDS, next_run_at=made.next_run_at)
    caught_up = {"one": 1, "all": 100, "none": 0}[catch_up]
    assert total == {("fired", None): caught_up + 1, ("skipped", "missed"): minutes - caught_up}
    assert passes == -(-minutes // (MOST_PER_PASS - 102)) and rows < passes + 205


def test_a_pause_or_a_change_skips_every_time_up_to_now() -> None:
    made = skip_all(entry(3), NOW, "paused", "noise")
    assert [(o.status, o.reason, o.detail) for o in made.occurrences] == [("skipped", "paused", "noise")] * 4
    assert made.next_run_at == ON_THE_MINUTE + MINUTE


@settings(max_examples=60, deadline=None)
@given(
    minutes=st.integers(0, 400),
    late=st.floats(0, 59, allow_nan=False),
    overlap=st.sampled_from(["allow", "skip", "buffer_one", "cancel_previous"]),
    catch_up=st.sampled_from(["one", "all", "none"]),
    window=st.integers(0, 30_000),
    is_running=st.booleans(),
    offset=st.integers(0, 7_200_000),
)
def test_every_due_time_is_settled_once_and_in_order(
    minutes: int, late: float, overlap: str, catch_up: str, window: int, is_running: bool, offset: int
) -> None:
    shift = timedelta(milliseconds=offset)
    one = entry(
        minutes,
        overlap=overlap,
        catch_up=catch_up,
        catch_up_window_seconds=window,
        is_running=is_running,
        offset=shift,
    )
    made = plan(one, ON_THE_MINUTE + shift + timedelta(seconds=late))
    assert sum(counts(made).values()) == minutes + 1
    assert made.next_run_at == ON_THE_MINUTE + MINUTE
    spans = [(o.nominal_at, o.through_at or o.nominal_at) for o in made.occurrences]
    assert spans[0][0] == ON_THE_MINUTE - minutes * MINUTE and spans[-1][1] == ON_THE_MINUTE
    assert all(later - through == MINUTE for (_, through), (later, _) in pairwise(spans))
    assert all((o.reason is not None) == (o.status == "skipped") for o in made.occurrences)
    assert sum(o.status == "buffered" for o in made.occurrences) <= (overlap == "buffer_one")
    if overlap in ("skip", "buffer_one", "cancel_previous"):
        assert len(fired(made)) <= 1
    assert len(fired(made)) <= 101
    assert len(made.occurrences) <= 203
