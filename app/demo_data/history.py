"""The life of a made-up job up to now: its attempts under the real retry rules, its row, and what the minutes count. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

from app.attempts import Answer
from app.callback import Callback, values_of
from app.ids import uuid7_of
from app.retry import RetryAt, Stop, next_attempt
from app.retry_policy import policy_of

Behaviour = Callable[[datetime, int], Answer]
MOMENT = timedelta(milliseconds=2)


@dataclass(frozen=True, slots=True)
class Order:
    """What is asked for: a job, when, and how its receiver answers. `begins_at`: no attempt begins before it."""

    client_id: int
    type: str
    callback: Callback
    created_at: datetime
    due_at: datetime
    behaviour: Behaviour
    begins_at: datetime | None = None
    cron_entry_id: int | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    number: int
    due_at: datetime
    answer: Answer
    worker: UUID
    outcome: str


@dataclass(slots=True)
class Made:
    """The columns of a job's row, and its attempts in order."""

    job: dict[str, Any]
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def ended_at(self) -> datetime | None:
        at: datetime | None = self.job["finished_at"]
        return at


def waiting(rand: Random, order: Order, status: str) -> Made:
    """A job without attempts: `scheduled` for its time, or `cancelled` when it is finished already."""
    return Made(
        {
            "id": uuid7_of(int(order.created_at.timestamp() * 1000), rand.randbytes(10)),
            "client_id": order.client_id,
            "type": order.type,
            **values_of(order.callback),
            "payload_bytes": order.callback.payload_bytes,
            "status": status,
            "run_at": order.due_at,
            "scheduled_for": order.due_at,
            "first_due_at": max(order.due_at, order.created_at),
            "attempts": 0,
            "idempotency_key": order.idempotency_key,
            "cron_entry_id": order.cron_entry_id,
            "last_error": None,
            "last_error_class": None,
            "last_status_code": None,
            "created_at": order.created_at,
            "updated_at": order.created_at,
            "started_at": None,
            "finished_at": None,
        }
    )


def cancelled(rand: Random, order: Order, at: datetime) -> Made:
    """A job that was called off before its time."""
    made = waiting(rand, order, "cancelled")
    made.job |= {"finished_at": at, "updated_at": at}
    return made


def lived(rand: Random, order: Order, now: datetime, workers: tuple[UUID, ...]) -> Made:
    """A job whose time has come. It is done, dead, or `scheduled` for an attempt that is still to come."""
    made = waiting(rand, order, "scheduled")
    job, due_at = made.job, order.due_at
    begins_at = max(order.created_at, order.begins_at or order.created_at)
    while job["status"] == "scheduled":
        started_at = max(due_at, begins_at) + timedelta(milliseconds=_lag_ms(rand))
        if started_at > now - 2 * MOMENT:
            break
        job["attempts"] += 1
        answer = _cut(order.behaviour(started_at, job["attempts"]), now)
        outcome, follows_at = _follow(rand, job, answer)
        made.attempts.append(Attempt(job["attempts"], due_at, answer, rand.choice(workers), outcome))
        due_at = follows_at or due_at
        job |= {"run_at": due_at, "started_at": started_at}
    return made


def _follow(rand: Random, job: dict[str, Any], answer: Answer) -> tuple[str, datetime | None]:
    """Changes the row as recording does. Returns what the minute counts, and when the next attempt is due."""
    at = answer.finished_at + timedelta(milliseconds=rand.uniform(0.5, 3))
    job |= {"last_status_code": answer.status_code, "last_error_class": answer.error_class, "updated_at": at}
    if answer.error_class is None:
        job |= {"status": "done", "finished_at": at, "last_error": None}
        return "succeeded", None
    follows = next_attempt(
        policy_of(job["retry"]),
        job["attempts"],
        job["max_attempts"],
        status_code=answer.status_code,
        error_class=answer.error_class,
        headers=answer.response_headers,
        first_due_at=job["first_due_at"],
        now=at,
        rand=rand.random(),
    )
    if isinstance(follows, Stop):
        job |= {"status": "dead", "finished_at": at, "last_error": f"{answer.error} {follows.reason}"}
        return "dead", None
    assert isinstance(follows, RetryAt)
    job["last_error"] = answer.error
    return "lost" if answer.error_class == "lost" else "retried", at + timedelta(seconds=follows.delay_seconds)


def _lag_ms(rand: Random) -> float:
    """How long after its time an attempt begins: some milliseconds, and now and then some tens of them."""
    return rand.lognormvariate(math.log(7), 0.55) + (rand.uniform(15, 90) if rand.random() < 0.03 else 0)


def _cut(answer: Answer, now: datetime) -> Answer:
    """An answer that would come after now came just before it, in less time."""
    if answer.finished_at <= now - MOMENT:
        return answer
    took_ms = max((now - MOMENT - answer.started_at) / timedelta(milliseconds=1), 0.5)
    shorter = took_ms / answer.timings["total"] if answer.timings else 1.0
    timings = {name: round(value * shorter, 3) for name, value in answer.timings.items()}
    finished_at = answer.started_at + timedelta(milliseconds=took_ms)
    return Answer(
        answer.started_at,
        finished_at,
        answer.status_code,
        answer.error_class,
        answer.error,
        timings,
        answer.response_headers,
        answer.response_body,
    )
