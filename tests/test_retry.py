"""When the next attempt comes, and when none does."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.retry import (
    DEFAULT_POLICY,
    RetryAt,
    RetryPolicy,
    Stop,
    delay,
    next_attempt,
    planned,
    planned_delay,
)

NOW = datetime(2026, 12, 1, 10, 0, tzinfo=UTC)
DAY = 86_400.0
PLAIN = RetryPolicy(jitter="none")


def _next(policy: RetryPolicy = PLAIN, attempt: int = 1, max_attempts: int = 5, **changes: Any) -> RetryAt | Stop:
    facts: dict[str, Any] = {
        "status_code": 500,
        "error_class": "http_5xx",
        "headers": (),
        "first_due_at": NOW,
        "now": NOW,
        "rand": 0.0,
    }
    return next_attempt(policy, attempt, max_attempts, **(facts | changes))


@pytest.mark.parametrize(
    ("attempt", "seconds"),
    [(1, 1), (2, 2), (3, 4), (4, 8), (10, 512), (11, 900), (12, 900), (100, 900), (2000, 900), (10**9, 900)],
)
def test_the_default_doubles_from_one_second_to_fifteen_minutes(attempt: int, seconds: float) -> None:
    assert planned_delay(DEFAULT_POLICY, attempt) == seconds


@pytest.mark.parametrize(
    ("policy", "delays"),
    [
        (RetryPolicy(base_seconds=10, factor=3, max_seconds=100), [10, 30, 90, 100, 100]),
        (RetryPolicy(base_seconds=10, factor=1), [10, 10, 10]),
        (RetryPolicy(base_seconds=8, factor=0.5), [8, 4, 2, 1]),
        (RetryPolicy(base_seconds=0, factor=10), [0, 0, 0]),
        (RetryPolicy(backoff="linear", base_seconds=20, max_seconds=50), [20, 40, 50, 50]),
        (RetryPolicy(backoff="fixed", base_seconds=7), [7, 7, 7]),
        (RetryPolicy(backoff="fixed", base_seconds=3600), [3600, 3600]),
        (RetryPolicy(backoff="list", delays=(5, 60, 3600)), [5, 60, 3600, 3600, 3600]),
        (RetryPolicy(backoff="list", delays=(0,)), [0, 0]),
    ],
)
def test_each_backoff_grows_by_its_own_rule(policy: RetryPolicy, delays: list[float]) -> None:
    assert planned(policy, len(delays) + 1) == delays


@pytest.mark.parametrize("backoff", ["exponential", "linear", "fixed", "list"])
@pytest.mark.parametrize("base", [0, 0.001, 1, 86_400])
@pytest.mark.parametrize("attempt", [1, 100, 2_000, 10**18])
def test_no_attempt_number_overflows(backoff: Any, base: float, attempt: int) -> None:
    policy = RetryPolicy(backoff=backoff, base_seconds=base, factor=10, delays=(base,), jitter="full")
    assert 0 <= delay(policy, attempt, 0.999) <= 86_400


@pytest.mark.parametrize(
    ("jitter", "rand", "seconds"),
    [("full", 0.0, 0), ("full", 0.25, 2), ("half", 0.0, 4), ("half", 0.5, 6), ("none", 0.0, 8), ("none", 0.9, 8)],
)
def test_jitter_spreads_the_delay(jitter: Any, rand: float, seconds: float) -> None:
    assert delay(RetryPolicy(jitter=jitter), 4, rand) == seconds


@given(rand=st.floats(0, 1, exclude_max=True), attempt=st.integers(1, 5000))
def test_jitter_stays_within_its_bounds(rand: float, attempt: int) -> None:
    whole = planned_delay(DEFAULT_POLICY, attempt)
    assert whole / 2 <= delay(DEFAULT_POLICY, attempt, rand) <= whole
    assert 0 <= delay(replace(DEFAULT_POLICY, jitter="full"), attempt, rand) <= whole


def test_the_plan_holds_one_wait_less_than_attempts() -> None:
    assert planned(DEFAULT_POLICY, 5) == [1, 2, 4, 8]
    assert planned(DEFAULT_POLICY, 1) == []


def test_the_plan_ends_where_the_policy_gives_up() -> None:
    assert planned(replace(DEFAULT_POLICY, give_up_after_seconds=7), 100) == [1, 2, 4]
    assert planned(replace(DEFAULT_POLICY, give_up_after_seconds=6.9), 100) == [1, 2]


def test_a_failed_attempt_is_followed_by_the_policys_delay() -> None:
    assert _next(attempt=3) == RetryAt(4)
    assert _next(DEFAULT_POLICY, attempt=3, rand=0.5) == RetryAt(3)
    assert _next(status_code=None, error_class="connect") == RetryAt(1)
    assert _next(status_code=None, error_class="lost") == RetryAt(1)


@pytest.mark.parametrize(("attempt", "max_attempts"), [(1, 1), (5, 5), (6, 5), (100, 100)])
def test_the_last_attempt_ends_it(attempt: int, max_attempts: int) -> None:
    outcome = _next(attempt=attempt, max_attempts=max_attempts)
    assert isinstance(outcome, Stop)
    assert str(max_attempts) in outcome.reason


def test_410_ends_it_at_once_and_says_so() -> None:
    outcome = _next(status_code=410, error_class="http_4xx", headers=(("Retry-After", "5"),))
    assert isinstance(outcome, Stop)
    assert "410" in outcome.reason


@pytest.mark.parametrize(
    ("name", "value", "stops"),
    [
        ("X-Job-No-Retry", "true", True),
        ("x-job-no-retry", " TRUE ", True),
        ("X-Job-No-Retry", "false", False),
        ("X-Job-No-Retry", "", False),
        ("X-Job-No-Retry", "1", False),
        ("X-Job-No-Retry-Not", "true", False),
    ],
)
@pytest.mark.parametrize("status_code", [302, 400, 429, 500, 503])
def test_the_receiver_can_refuse_further_attempts(name: str, value: str, stops: bool, status_code: int) -> None:
    outcome = _next(status_code=status_code, headers=((name, value),))
    assert isinstance(outcome, Stop) is stops
    if isinstance(outcome, Stop):
        assert "X-Job-No-Retry" in outcome.reason


@pytest.mark.parametrize("status_code", [429, 503])
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ((("Retry-After", "120"),), 120),
        ((("RETRY-AFTER", "Tue, 01 Dec 2026 10:02:00 GMT"),), 120),
        ((("Retry-After", "9999999999"),), DAY),
        ((("Retry-After", "0"),), 1),
        ((("Retry-After", "2"),), 2),
        ((("Retry-After", "abc"),), 8),
        ((("Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT"),), 8),
        ((("Retry-After", "abc"), ("X-RateLimit-Reset", "33")), 33),
        ((("X-RateLimit-Reset", "33"), ("Retry-After", "22")), 22),
        ((("RateLimit-Reset", "0"),), 1),
        ((), 8),
    ],
)
def test_a_busy_receivers_wish_replaces_the_backoff(status_code: int, headers: Any, seconds: float) -> None:
    assert _next(attempt=4, status_code=status_code, headers=headers) == RetryAt(seconds)
    assert _next(attempt=4, status_code=status_code, headers=dict(headers)) == RetryAt(seconds)


@pytest.mark.parametrize("status_code", [301, 400, 404, 500, 502, 504])
def test_other_statuses_do_not_set_the_delay(status_code: int) -> None:
    assert _next(status_code=status_code, headers=(("Retry-After", "120"), ("RateLimit-Reset", "9"))) == RetryAt(1)


@pytest.mark.parametrize(
    ("status_code", "error_class", "seconds"),
    [(429, "http_4xx", 1), (503, "http_5xx", 1), (None, "timeout", 1), (500, "http_5xx", 0.1), (None, "connect", 0.1)],
)
def test_busy_and_silent_receivers_get_at_least_a_second(status_code: Any, error_class: str, seconds: float) -> None:
    eager = RetryPolicy(backoff="fixed", base_seconds=0.1, jitter="none")
    assert _next(eager, status_code=status_code, error_class=error_class) == RetryAt(seconds)


def test_it_gives_up_when_the_next_attempt_would_come_too_late() -> None:
    policy = replace(PLAIN, give_up_after_seconds=60)
    assert _next(policy, attempt=3, now=NOW + timedelta(seconds=56)) == RetryAt(4)
    outcome = _next(policy, attempt=3, now=NOW + timedelta(seconds=56.001))
    assert isinstance(outcome, Stop)
    assert "60 s" in outcome.reason


def test_a_long_retry_after_does_not_outlast_the_time_to_give_up() -> None:
    policy = replace(PLAIN, give_up_after_seconds=60)
    assert isinstance(_next(policy, status_code=503, headers=(("Retry-After", "61"),)), Stop)
    assert _next(policy, status_code=503, headers=(("Retry-After", "60"),)) == RetryAt(60)


@pytest.mark.parametrize(
    "broken",
    [
        {"backoff": "list", "delays": ()},
        {"backoff": "list", "delays": (math.nan,)},
        {"backoff": "list", "delays": ("soon",)},
        {"backoff": "list", "delays": (-5,)},
        {"backoff": "fixed", "base_seconds": math.inf},
        {"backoff": "unheard of"},
        {"jitter": "unheard of"},
        {"base_seconds": -1},
        {"max_seconds": math.nan},
        {"base_seconds": None},
    ],
)
def test_a_policy_that_cannot_be_computed_leaves_the_job_retryable(broken: dict[str, Any]) -> None:
    assert _next(RetryPolicy(**({"jitter": "none"} | broken)), attempt=3) == RetryAt(2)


@given(
    policy=st.builds(
        RetryPolicy,
        backoff=st.sampled_from(["exponential", "linear", "fixed", "list"]),
        base_seconds=st.floats(),
        factor=st.floats(),
        max_seconds=st.floats(),
        jitter=st.sampled_from(["full", "half", "none"]),
        delays=st.lists(st.floats(), max_size=3).map(tuple),
        give_up_after_seconds=st.none() | st.floats(0, 1e9),
    ),
    attempt=st.integers(1, 5000),
    status_code=st.none() | st.integers(100, 599),
    error_class=st.sampled_from(["timeout", "connect", "http_5xx", "lost"]),
    retry_after_value=st.text(max_size=12),
    rand=st.floats(0, 1, exclude_max=True),
)
def test_whatever_happens_the_outcome_is_a_finite_delay_or_a_reason(
    policy: RetryPolicy, attempt: int, status_code: Any, error_class: str, retry_after_value: str, rand: float
) -> None:
    outcome = _next(
        policy,
        attempt,
        4000,
        status_code=status_code,
        error_class=error_class,
        headers=(("Retry-After", retry_after_value),),
        rand=rand,
    )
    if isinstance(outcome, RetryAt):
        assert math.isfinite(outcome.delay_seconds)
        assert outcome.delay_seconds >= 0
        assert attempt < 4000
    else:
        assert outcome.reason.endswith(".")
