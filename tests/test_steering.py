"""What a receiver's answer, as it comes over the wire, makes of the job: how it steers its retries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.outcomes import decide
from app.retry import RetryPolicy
from tests.delivery import NOW, Delivery, answering, hanging, make_claim, receiver, running_deliverer

EAGER = RetryPolicy(backoff="fixed", base_seconds=0.25, jitter="none")


@pytest.fixture(scope="module")
def delivery() -> Iterator[Delivery]:
    with running_deliverer() as delivery:
        yield delivery


def reply(status: int, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", *headers, "Content-Length: 0", "Connection: close", "", ""]
    return "\r\n".join(lines).encode("latin-1")


@pytest.mark.parametrize(
    ("raw", "next_status", "delay_seconds", "words"),
    [
        (reply(200), "done", 0, None),
        (reply(200, "X-Job-No-Retry: true"), "done", 0, None),
        (reply(500), "scheduled", 0.25, "500"),
        (reply(500, "Retry-After: 120"), "scheduled", 0.25, "500"),
        (reply(429), "scheduled", 1, "429"),
        (reply(503), "scheduled", 1, "503"),
        (reply(429, "Retry-After: 120"), "scheduled", 120, "429"),
        (reply(503, "retry-after:  Tue, 01 Dec 2026 10:02:00 GMT "), "scheduled", 120, "503"),
        (reply(503, "Retry-After: 0"), "scheduled", 1, "503"),
        (reply(503, "Retry-After: \u00b2"), "scheduled", 1, "503"),
        (reply(429, "Retry-After: 9999999999"), "scheduled", 86_400, "429"),
        (reply(429, "RateLimit-Reset: 30"), "scheduled", 30, "429"),
        (reply(429, f"X-RateLimit-Reset: {int(NOW.timestamp()) + 45}"), "scheduled", 45, "429"),
        (reply(410), "dead", 0, "410 Gone: it wants no further attempt."),
        (reply(500, "X-Job-No-Retry: true"), "dead", 0, "X-Job-No-Retry"),
        (reply(503, "Retry-After: 5", "x-job-no-retry: TRUE"), "dead", 0, "X-Job-No-Retry"),
        (reply(302, "Location: /x", "X-Job-No-Retry: true"), "dead", 0, "X-Job-No-Retry"),
        (reply(500, "X-Job-No-Retry: no"), "scheduled", 0.25, "500"),
        # An interim answer says nothing, whatever it says.
        (b"HTTP/1.1 103 X\r\nX-Job-No-Retry: true\r\nRetry-After: 9\r\n\r\n" + reply(503), "scheduled", 1, "503"),
        (b"HTTP/1.1 410 Gone\r\nX-Job-No-Retry: true", "scheduled", 0.25, "closed"),
    ],
)
def test_an_answer_steers_what_follows(
    delivery: Delivery, raw: bytes, next_status: str, delay_seconds: float, words: str | None
) -> None:
    with receiver(answering(raw)) as made:
        ended = delivery.call(made.url)
    ending = decide(make_claim(made.url, policy=EAGER), ended, NOW, 0.0)
    assert (ending.next_status, ending.delay_seconds) == (next_status, delay_seconds)
    assert (ending.error is None) == (words is None)
    assert words is None or words in (ending.error or "")


def test_who_never_answers_is_left_alone_for_a_second(delivery: Delivery) -> None:
    with receiver(hanging) as made:
        ended = delivery.call(made.url, timeout_seconds=0.1)
    ending = decide(make_claim(made.url, policy=EAGER), ended, NOW, 0.0)
    assert (ending.next_status, ending.delay_seconds) == ("scheduled", 1)
