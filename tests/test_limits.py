"""How many jobs of a queue may start now: slots, and a rate that no span at the receiver exceeds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.queues.limits import ARRIVAL_SPREAD, MOST_COUNTS, Limits

NOW = datetime(2026, 12, 1, 10, tzinfo=UTC)


def limits(**changes: object) -> Limits:
    values = {"concurrency": None, "rate_limit": None, "rate_period_seconds": None, "is_paused": False, "starts": []}
    return Limits(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("queue", "running", "free"),
    [
        (limits(), 1000, 10),
        (limits(is_paused=True), 0, 0),
        (limits(concurrency=3), 0, 3),
        (limits(concurrency=3), 2, 1),
        (limits(concurrency=3), 3, 0),
        # After a limit was lowered.
        (limits(concurrency=3), 9, 0),
        (limits(rate_limit=4, rate_period_seconds=60), 0, 4),
        (limits(rate_limit=4, rate_period_seconds=60, starts=[(NOW, 3)]), 0, 1),
        (limits(rate_limit=4, rate_period_seconds=60, starts=[(NOW, 9)]), 0, 0),
        (limits(rate_limit=4, rate_period_seconds=60, starts=[(NOW - timedelta(seconds=60), 4)]), 0, 0),
        (limits(rate_limit=4, rate_period_seconds=60, starts=[(NOW - timedelta(seconds=60.1), 4)]), 0, 4),
        (limits(rate_limit=8, rate_period_seconds=60, concurrency=2, starts=[(NOW, 3)]), 1, 1),
    ],
)
def test_what_is_free(queue: Limits, running: int, free: int) -> None:
    assert queue.free(running, NOW, 10) == free


def test_when_more_may_start() -> None:
    queue = limits(rate_limit=2, rate_period_seconds=60, starts=[(NOW - timedelta(seconds=50), 1), (NOW, 1)])
    assert queue.more_at(NOW) == NOW + timedelta(seconds=10) + ARRIVAL_SPREAD


@given(
    limit=st.integers(1, 20),
    period=st.floats(0.1, 100),
    asked=st.lists(st.tuples(st.floats(0, 20), st.integers(1, 30)), min_size=1, max_size=60),
    spread=st.lists(st.floats(0, 0.1), min_size=1, max_size=10),
)
def test_no_span_at_the_receiver_sees_more_than_the_rate(
    limit: int, period: float, asked: list[tuple[float, int]], spread: list[float]
) -> None:
    """Each call arrives up to 100 ms after its claim; the starts are grouped as they are stored."""
    now, starts, arrivals = NOW, [], []
    for pause, wanted in asked:
        now += timedelta(seconds=pause)
        queue = limits(rate_limit=limit, rate_period_seconds=period, starts=starts)
        count = queue.free(0, now, wanted)
        starts = queue.with_starts(count, now)
        assert len(starts) <= MOST_COUNTS + 2
        assert sum(number for _, number in starts) <= limit
        for place in range(count):
            late = spread[(len(arrivals) + place) % len(spread)]
            arrivals.append(now + timedelta(seconds=late))
    arrivals.sort()
    for place, at in enumerate(arrivals):
        assert sum(1 for other in arrivals[place:] if other - at < timedelta(seconds=period)) <= limit
