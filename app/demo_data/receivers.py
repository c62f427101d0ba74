"""How the receivers of made-up jobs behave: those with spells of failing, and the demo receiver's paths. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from urllib.parse import parse_qs, urlsplit

from app.attempts import Answer
from app.callback import Callback
from app.demo_data.answers import failed, succeeded
from app.demo_data.failures import DEMO_FAIL, LOST, REFUSED, Failure
from app.demo_data.history import Behaviour
from app.demo_data.work import Kind

DEMO_SERVER = "punctual-demo Python/3"
# A worker vanished at this time, with what it had in flight.
WORKER_LOST_HOURS = 4.7
LOST_WITHIN = timedelta(seconds=9)
# From when to when (hours ago) nothing listened at the demo receiver's address.
DEMO_DOWN_HOURS = ((16.4, 16.2), (1.25, 1.1))


def out_in_the_world(rand: Random, kind: Kind, now: datetime) -> Behaviour:
    """A receiver of one of the made-up clients. Within a spell a call fails with the spell's share, else now and then."""
    is_tls, luck = kind.url.startswith("https:"), rand.random()

    def answer(started_at: datetime, attempt: int) -> Answer:
        failure = _failure(rand, kind, now - started_at, attempt, luck)
        if failure is not None:
            return failed(rand, started_at, failure, kind.server, is_tls)
        return succeeded(rand, started_at, kind.median_ms, kind.spread, kind.answer(rand), kind.server, is_tls)

    return answer


def _failure(rand: Random, kind: Kind, ago: timedelta, attempt: int, luck: float) -> Failure | None:
    if attempt == 1 and timedelta() <= ago - timedelta(hours=WORKER_LOST_HOURS) <= LOST_WITHIN:
        return LOST
    for spell in kind.spells:
        drawn = luck if spell.sticks else rand.random()
        if timedelta(hours=spell.to_hours) <= ago <= timedelta(hours=spell.from_hours) and drawn < spell.share:
            return spell.failure
    return kind.noise_failure if attempt == 1 and rand.random() < kind.noise else None


def demo_receiver(rand: Random, callback: Callback, now: datetime) -> Behaviour:
    """What the demo receiver answers to this callback's path."""
    url = urlsplit(callback.callback_url)
    query = {name: float(values[0]) for name, values in parse_qs(url.query).items()}
    median_ms = query["seconds"] * 1000 if url.path == "/hook-slow" else 2.4
    fails = query["fails"] if url.path == "/hook-flaky" else 100 if url.path == "/hook-fail" else 0

    def answer(started_at: datetime, attempt: int) -> Answer:
        ago = now - started_at
        if any(timedelta(hours=to) <= ago <= timedelta(hours=since) for since, to in DEMO_DOWN_HOURS):
            return failed(rand, started_at, REFUSED, DEMO_SERVER, False)
        if attempt <= fails:
            return failed(rand, started_at, DEMO_FAIL, DEMO_SERVER, False)
        spread = 0.001 if url.path == "/hook-slow" else 0.4
        return succeeded(rand, started_at, median_ms, spread, '{"received": true}', DEMO_SERVER, False)

    return answer
