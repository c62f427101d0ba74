"""What a receiver's headers ask for, in seconds: Retry-After and the reset times of rate limits."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.retry import reset_after, retry_after

NOW = datetime(2026, 12, 1, 10, 0, tzinfo=UTC)
DAY = 86_400.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        ("0", 0),
        ("000120", 120),
        (" 120\t", 120),
        ("86400", DAY),
        ("86401", DAY),
        ("9999999999", DAY),
        ("9" * 5000, DAY),
        ("0" * 5000 + "7", 7),
        ("Tue, 01 Dec 2026 10:02:00 GMT", 120),
        ("Mon, 01 Dec 2026 10:02:00 GMT", 120),
        ("Tue, 01 Dec 2026 10:00:00 GMT", 0),
        ("Tue, 01 Dec 2026 10:01:60 GMT", 120),
        ("Wed, 02 Dec 2026 10:00:00 GMT", DAY),
        ("Thu, 03 Dec 2026 10:00:00 GMT", DAY),
        ("Fri, 31 Dec 9999 23:59:60 GMT", None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", DAY),
        ("Tuesday, 01-Dec-26 10:02:00 GMT", 120),
        ("Tuesday, 01-Dec-76 09:00:00 GMT", DAY),
        ("Wednesday, 01-Dec-77 10:02:00 GMT", None),
        ("Friday, 01-Dec-99 10:02:00 GMT", None),
        ("Tue Dec  1 10:02:00 2026", 120),
        ("Tue Dec 01 10:02:00 2026", 120),
        ("Tue, 01 Dec 2026 09:59:59 GMT", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", None),
        ("Mon, 30 Feb 2027 10:00:00 GMT", None),
        ("Tue, 01 Dec 2026 24:00:00 GMT", None),
        ("Tue, 01 Dec 2026 10:60:00 GMT", None),
        ("Tue, 01 Dec 2026 10:02:61 GMT", None),
        ("Fri, 01 Jan 0000 00:00:00 GMT", None),
        ("Tue, 01 Dec 2026 10:02:00", None),
        ("Tue, 01 Dec 2026 10:02:00 CET", None),
        ("Tue, 01 Dec 2026 10:02:00 +0000", None),
        ("Tue, 01 Dec 2026 10:02:00 GMT, 120", None),
        ("2026-12-01T10:02:00Z", None),
        ("-1", None),
        ("+1", None),
        ("1.5", None),
        ("1e3", None),
        ("0x10", None),
        ("1_000", None),
        ("120, 240", None),
        ("120\n", None),
        ("2m", None),
        ("abc", None),
        ("", None),
        (" ", None),
        ("NaN", None),
        ("inf", None),
        ("\u00b2", None),
        ("\u0661\u0662", None),
        ("\uff11\uff12\uff10", None),
        ("Tue, \u0660\u0661 Dec 2026 10:02:00 GMT", None),
    ],
)
def test_retry_after_takes_seconds_and_http_dates_only(value: str, seconds: float | None) -> None:
    assert retry_after(value, NOW) == seconds


def test_a_two_digit_year_is_read_across_the_turn_of_a_century() -> None:
    before = datetime(2099, 12, 31, 23, 59, tzinfo=UTC)
    assert retry_after("Friday, 01-Jan-00 00:00:00 GMT", before) == 60


def test_a_date_is_counted_from_now_to_the_fraction() -> None:
    assert retry_after("Tue, 01 Dec 2026 10:02:00 GMT", NOW + timedelta(milliseconds=250)) == 119.75


@given(st.text())
def test_no_text_makes_the_header_readers_raise(text: str) -> None:
    for seconds in (retry_after(text, NOW), reset_after({"RateLimit-Reset": text}, NOW)):
        assert seconds is None or 0 <= seconds <= DAY


@given(
    st.text(alphabet="0123456789 :,-GMTueDcJan", max_size=40),
    st.sampled_from([NOW, datetime.max.replace(tzinfo=UTC, year=9900)]),
)
def test_no_text_like_a_date_makes_them_raise(text: str, now: datetime) -> None:
    seconds = retry_after(text, now)
    assert seconds is None or 0 <= seconds <= DAY


EPOCH = int(NOW.timestamp())


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"RateLimit-Reset": "30"}, 30),
        ({"X-RateLimit-Reset": "30"}, 30),
        ({"x-ratelimit-reset": " 30 "}, 30),
        ({"X-RATELIMIT-RESET": "0"}, 0),
        ({"X-RateLimit-Reset": "100000"}, DAY),
        ({"X-RateLimit-Reset": str(EPOCH + 45)}, 45),
        ({"X-RateLimit-Reset": str((EPOCH + 45) * 1000 + 500)}, 45.5),
        ({"X-RateLimit-Reset": str(EPOCH + 100_000)}, DAY),
        ({"X-RateLimit-Reset": str(EPOCH - 1)}, None),
        ({"X-RateLimit-Reset": str((EPOCH - 1) * 1000)}, None),
        ({"X-RateLimit-Reset": "9" * 5000}, DAY),
        ({"X-RateLimit-Reset": "Tue, 01 Dec 2026 10:02:00 GMT"}, 120),
        ({"RateLimit-Reset": "30", "X-RateLimit-Reset": "60"}, 30),
        ({"X-RateLimit-Reset": "60", "RateLimit-Reset": "30"}, 30),
        ({"RateLimit-Reset": "soon", "X-RateLimit-Reset": "60"}, 60),
        ({"RateLimit-Reset": "-5"}, None),
        ({"RateLimit-Reset": "1.5"}, None),
        ({"RateLimit-Reset": "\u00b2"}, None),
        ({"RateLimit-Limit": "5"}, None),
        ({}, None),
        ((("X-RateLimit-Reset", "x"), ("X-RateLimit-Reset", "9")), 9),
    ],
)
def test_a_reset_time_is_a_span_or_an_instant(headers: Any, seconds: float | None) -> None:
    assert reset_after(headers, NOW) == seconds
