"""Reading queues: one, all of a client's, and what Redis is to know of those that are limited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Engine, select, text

from app.database import autocommit
from app.errors import NotFound
from app.models import Queue

# What a queue's jobs are doing, from PostgreSQL: each count walks what it counts.
VIEW = text("""
    SELECT (SELECT count(*) FROM jobs WHERE queue_id = :id AND status IN ('pending', 'scheduled') AND run_at <= punctual_now()) AS waiting,
           (SELECT count(*) FROM jobs WHERE queue_id = :id AND status IN ('pending', 'scheduled') AND run_at > punctual_now()) AS scheduled,
           (SELECT count(*) FROM jobs WHERE queue_id = :id AND status = 'running') AS in_flight,
           (SELECT min(run_at) FROM jobs WHERE queue_id = :id AND status IN ('pending', 'scheduled') AND run_at <= punctual_now()) AS oldest_due_at,
           punctual_now() AS now
""")
LIMITED = text("""
    SELECT client_id, id, concurrency, rate_limit IS NOT NULL AS is_rated, paused_at IS NOT NULL AS is_paused
    FROM queues WHERE is_limited
""")
HOLDING = text("""
    SELECT j.client_id, j.queue_id, j.id FROM jobs j JOIN queues q ON q.id = j.queue_id WHERE j.status = 'running' AND q.is_limited
""")
RUNNING_OF = text("SELECT id FROM jobs WHERE id = ANY(CAST(:ids AS uuid[])) AND status = 'running'")
TOKENS = text("SELECT client_id, id FROM queues")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """A queue as stored."""

    id: int
    client_id: int
    name: str
    concurrency: int | None
    rate_limit: int | None
    rate_period_seconds: float | None
    paused_at: datetime | None
    pause_reason: str | None
    paused_by: str | None
    default_max_attempts: int | None
    default_timeout_seconds: float | None
    circuit_breaker: bool | None
    rate_starts: list[datetime]
    rate_counts: list[int]
    created_at: datetime
    updated_at: datetime

    @property
    def token(self) -> str:
        return f"{self.client_id}:{self.id}"

    @property
    def limits(self) -> str:
        """As Redis keeps them; empty for a queue without."""
        return limits_text(self.concurrency, self.rate_limit is not None, self.paused_at is not None)


@dataclass(frozen=True, slots=True)
class View:
    """What a queue is doing. `rate_used` counts the starts of the last period."""

    waiting: int
    scheduled: int
    in_flight: int
    oldest_due_at: datetime | None
    rate_used: int
    now: datetime


COLUMNS = [getattr(Queue, field.name) for field in fields(QueueRow)]


def limits_text(concurrency: int | None, is_rated: bool, is_paused: bool) -> str:
    """`<paused>:<concurrency>:<rated>`, as app/lua/queues.lua reads it; empty without limits."""
    if concurrency is None and not is_rated and not is_paused:
        return ""
    return f"{int(is_paused)}:{'' if concurrency is None else concurrency}:{int(is_rated)}"


def list_queues(engine: Engine, client_id: int | None) -> Sequence[QueueRow]:
    """A client's queues by name; everybody's for None."""
    query = select(*COLUMNS).order_by(Queue.name, Queue.client_id)
    if client_id is not None:
        query = query.where(Queue.client_id == client_id)
    with autocommit(engine) as conn:
        return [QueueRow(**row) for row in conn.execute(query).mappings()]


def get(engine: Engine, client_id: int, name: str) -> QueueRow:
    """Raises NotFound."""
    with autocommit(engine) as conn:
        row = conn.execute(select(*COLUMNS).where(Queue.client_id == client_id, Queue.name == name)).mappings()
        found = row.one_or_none()
    if found is None:
        raise NotFound(f"There is no queue {name[:64]}.")
    return QueueRow(**found)


def view(engine: Engine, queue: QueueRow) -> View:
    """What the queue is doing now."""
    with autocommit(engine) as conn:
        row = conn.execute(VIEW, {"id": queue.id}).one()
    used = 0
    if queue.rate_period_seconds is not None:
        starts = zip(queue.rate_starts, queue.rate_counts, strict=False)
        used = sum(count for at, count in starts if (row.now - at).total_seconds() < queue.rate_period_seconds)
    return View(row.waiting, row.scheduled, row.in_flight, row.oldest_due_at, used, row.now)


def limited(conn: Connection) -> dict[str, str]:
    """Token and limits of every limited queue."""
    rows = conn.execute(LIMITED)
    return {f"{r.client_id}:{r.id}": limits_text(r.concurrency, r.is_rated, r.is_paused) for r in rows}


def holding(conn: Connection) -> list[tuple[str, str]]:
    """(token, job id) of each running job of a limited queue."""
    return [(f"{row.client_id}:{row.queue_id}", str(row.id)) for row in conn.execute(HOLDING)]


def tokens(conn: Connection) -> list[str]:
    """Of all queues."""
    return [f"{row.client_id}:{row.id}" for row in conn.execute(TOKENS)]


def running_of(conn: Connection, job_ids: Sequence[str]) -> set[str]:
    """Those of some jobs that run."""
    ids: list[Any] = [UUID(job_id) for job_id in job_ids]
    return {str(row.id) for row in conn.execute(RUNNING_OF, {"ids": ids})}
