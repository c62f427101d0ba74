"""The made-up jobs that programs have sent: a day's worth that ended, some that wait, some that were called off. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from random import Random
from uuid import UUID

from app.callback import Callback
from app.callback_url import parse, parse_allowed
from app.demo_data.answers import compact
from app.demo_data.history import Made, Order, cancelled, lived, waiting
from app.demo_data.receivers import WORKER_LOST_HOURS, demo_receiver, out_in_the_world
from app.demo_data.work import KINDS, Kind
from app.retry import RetryPolicy
from app.retry_policy import text_of

LOOPBACK = parse_allowed("127.0.0.0/8")
CANCELLED, LATER, RETRYING, SOON, LOST = 70, 260, 18, 12, 7
# Nothing that calls a made-up host may still have an attempt to come.
YOUNGEST = timedelta(seconds=75)
PATIENT = RetryPolicy(backoff="list", delays=(120.0, 2700.0, 3600.0), jitter="half")


def ended(
    rand: Random, clients: Mapping[str, int], now: datetime, workers: tuple[UUID, ...], count: int
) -> Iterator[Made]:
    """Jobs of the last day to made-up hosts, done or dead; busier by day than by night."""
    for place, kind in enumerate(rand.choices(KINDS, [kind.weight for kind in KINDS], k=count)):
        due_at = _some_time(rand, now)
        if place < LOST:
            due_at = now - timedelta(hours=WORKER_LOST_HOURS) - timedelta(seconds=rand.uniform(1, 8))
        order = _order(rand, kind, clients, now, due_at, _asked_before(rand, due_at))
        yield lived(rand, order, now, workers)


def called_off(rand: Random, clients: Mapping[str, int], now: datetime) -> Iterator[Made]:
    for kind in rand.choices(KINDS[:6], k=CANCELLED):
        at = now - timedelta(hours=rand.uniform(0.1, 23))
        due_at = at + timedelta(minutes=rand.uniform(5, 600))
        yield cancelled(rand, _order(rand, kind, clients, now, due_at, at - timedelta(minutes=rand.uniform(2, 50))), at)


def still_to_come(
    rand: Random, clients: Mapping[str, int], now: datetime, workers: tuple[UUID, ...], receiver: str
) -> Iterator[Made]:
    """Jobs to the demo receiver, at `receiver`: some within the minute, some in the next day, and some between two attempts."""
    slow, flaky = f"{receiver}/hook-slow?seconds=", f"{receiver}/hook-flaky?fails=4"
    kinds = rand.choices(KINDS[:6], k=SOON + LATER + RETRYING)
    for kind in kinds[:SOON]:
        # Not at once: the loader looks every few seconds for what is due soon.
        due_at, url = now + timedelta(seconds=rand.uniform(9, 90)), f"{slow}{rand.randint(4, 45)}"
        yield waiting(rand, _local(rand, kind, clients, now, now, due_at, url), "scheduled")
    for place, kind in enumerate(kinds[SOON : SOON + LATER]):
        # A third of them within the hour, so that there is something to see.
        ahead = timedelta(minutes=rand.uniform(1, 60) if place % 3 == 0 else rand.uniform(60, 24 * 60))
        created_at = now - timedelta(minutes=rand.uniform(1, 1200))
        yield waiting(rand, _local(rand, kind, clients, now, created_at, now + ahead, f"{receiver}/hook"), "scheduled")
    for kind in kinds[SOON + LATER :]:
        due_at = now - timedelta(minutes=rand.uniform(7, 34))
        yield lived(rand, _local(rand, kind, clients, now, due_at, due_at, flaky), now, workers)


def _some_time(rand: Random, now: datetime) -> datetime:
    while True:
        ago = timedelta(seconds=rand.uniform(YOUNGEST.total_seconds(), 24 * 3600))
        at = now - ago
        hour = at.hour + at.minute / 60
        busy = 0.55 + 0.4 * math.sin((hour - 7.5) / 24 * 2 * math.pi) + 0.12 * math.sin(hour * 2.6)
        if rand.random() < busy:
            # Half of the work is asked for at a full or half minute.
            return at if rand.random() < 0.6 else at.replace(second=rand.choice((0, 30)), microsecond=0)


def _asked_before(rand: Random, due_at: datetime) -> datetime:
    """When it was submitted: most are due at once, some were asked for hours before."""
    if rand.random() < 0.7:
        return due_at
    return due_at - timedelta(seconds=rand.lognormvariate(math.log(900), 1.2))


def _order(
    rand: Random, kind: Kind, clients: Mapping[str, int], now: datetime, due_at: datetime, created_at: datetime
) -> Order:
    callback = callback_to(kind.url, compact(kind.payload(rand)), kind.max_attempts, text_of(kind.policy))
    return Order(
        clients[kind.client],
        kind.type,
        callback,
        created_at,
        due_at,
        out_in_the_world(rand, kind, now),
        idempotency_key=f"{kind.type}-{rand.getrandbits(48):012x}" if rand.random() < 0.4 else None,
    )


def _local(
    rand: Random,
    kind: Kind,
    clients: Mapping[str, int],
    now: datetime,
    created_at: datetime,
    due_at: datetime,
    url: str,
) -> Order:
    callback = callback_to(url, compact(kind.payload(rand)), 5, text_of(PATIENT), timeout_seconds=60.0)
    behaviour = demo_receiver(rand, callback, now)
    return Order(clients[kind.client], kind.type, callback, created_at, due_at, behaviour)


def callback_to(
    url: str, payload: str, max_attempts: int = 5, retry: str | None = None, timeout_seconds: float = 10.0
) -> Callback:
    target = parse(url, LOOPBACK)
    return Callback(
        payload=payload,
        callback_url=target.url,
        callback_host=target.key,
        timeout_seconds=timeout_seconds,
        max_attempts=max_attempts,
        retry=retry,
    )
