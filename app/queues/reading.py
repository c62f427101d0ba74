"""Reading queues: one, all of a client's, and what Redis is to know of those that are limited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Engine, select, text

from app.database import autocommit
from app.errors import NotFound
from app.models import Queue

# What the jobs of queues are doing, from PostgreSQL: each count walks what it counts.
VIEWS = text("""
    WITH clock AS MATERIALIZED (SELECT punctual_now() AS now)
    SELECT asked.id, clock.now, running.in_flight, waiting.count AS waiting, waiting.oldest_due_at, later.count AS scheduled
    FROM clock, unnest(CAST(:ids AS bigint[])) AS asked (id),
      LATERAL (SELECT count(*) AS in_flight FROM jobs WHERE queue_id = asked.id AND status = 'running') AS running,
      LATERAL (SELECT count(*), min(run_at) AS oldest_due_at FROM jobs
               WHERE queue_id = asked.id AND status IN ('pending', 'scheduled') AND run_at <= clock.now) AS waiting,
      LATERAL (SELECT count(*) FROM jobs
               WHERE queue_id = asked.id AND status IN ('pending', 'scheduled') AND run_at > clock.now) AS later
""")
LIMITED = text("""
    SELECT client_id, id, concurrency, rate_limit, rate_period_seconds, paused_at IS NOT NULL AS is_paused
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
        return limits_text(self.concurrency, self.rate_limit, self.rate_period_seconds, self.paused_at is not None)


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


def limits_text(concurrency: int | None, rate_limit: int | None, period_seconds: float | None, is_paused: bool) -> str:
    """`<paused>:<concurrency>:<rated>`, as app/lua/queues.lua reads it; empty without limits.

    What follows `1` for a rate only tells it from another: a queue whose rate has changed is looked at again.
    """
    if concurrency is None and rate_limit is None and not is_paused:
        return ""
    rate = "0" if rate_limit is None else f"1:{rate_limit}/{period_seconds:g}"
    return f"{int(is_paused)}:{'' if concurrency is None else concurrency}:{rate}"


def list_queues(engine: Engine, client_id: int | None) -> Sequence[QueueRow]:
    """A client's queues by name; everybody's for None."""
    query = select(*COLUMNS).order_by(Queue.name, Queue.client_id)
    if client_id is not None:
        query = query.where(Queue.client_id == client_id)
    with autocommit(engine) as conn:
        return [QueueRow(**row) for row in conn.execute(query).mappings()]


def get(engine: Engine, client_id: int, name: str) -> QueueRow:
    """Raises NotFound."""
    return _one(engine, not_found(name), Queue.client_id == client_id, Queue.name == name)


def get_by_id(engine: Engine, queue_id: int) -> QueueRow:
    """Whoever's it is. Raises NotFound."""
    return _one(engine, NotFound(f"There is no queue {queue_id}."), Queue.id == queue_id)


def _one(engine: Engine, missing: NotFound, *which: ColumnElement[bool]) -> QueueRow:
    with autocommit(engine) as conn:
        found = conn.execute(select(*COLUMNS).where(*which)).mappings().one_or_none()
    if found is None:
        raise missing
    return QueueRow(**found)


def not_found(name: str) -> NotFound:
    return NotFound(f"There is no queue {name[:64]}: it is made with its first job, or by PUT.")


def views(engine: Engine, queues: Sequence[QueueRow]) -> dict[int, View]:
    """What each of some queues is doing now, by its id."""
    by_id = {queue.id: queue for queue in queues}
    with autocommit(engine) as conn:
        rows = conn.execute(VIEWS, {"ids": list(by_id)}).all()
    return {
        row.id: View(
            row.waiting, row.scheduled, row.in_flight, row.oldest_due_at, _rate_used(by_id[row.id], row.now), row.now
        )
        for row in rows
    }


def _rate_used(queue: QueueRow, now: datetime) -> int:
    if queue.rate_period_seconds is None:
        return 0
    starts = zip(queue.rate_starts, queue.rate_counts, strict=False)
    return sum(count for at, count in starts if (now - at).total_seconds() < queue.rate_period_seconds)


def limited(conn: Connection) -> dict[str, str]:
    """Token and limits of every limited queue."""
    rows = conn.execute(LIMITED)
    return {
        f"{row.client_id}:{row.id}": limits_text(
            row.concurrency, row.rate_limit, row.rate_period_seconds, row.is_paused
        )
        for row in rows
    }


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
