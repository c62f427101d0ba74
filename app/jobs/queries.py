"""Reading jobs and executions: one job, pages of a list newest first, a job's attempts. Nothing here changes a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Engine, select

from app.database import autocommit
from app.models import Execution, Job, Queue

DEAD = "dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job as lists show it."""

    id: UUID
    client_id: int
    type: str
    queue: str
    priority: int
    tags: list[str]
    method: str
    callback_url: str
    status: str
    run_at: datetime
    scheduled_for: datetime
    expires_at: datetime | None
    attempts: int
    max_attempts: int
    queue_generation: int
    idempotency_key: str | None
    cron_entry_id: int | None
    cancel_requested_at: datetime | None
    last_error: str | None
    last_error_class: str | None
    last_status_code: int | None
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail(JobRow):
    """A job whole. The texts are as app.callback stores them."""

    payload: str | None
    content_type: str | None
    headers: str
    timeout_seconds: float
    success_statuses: str | None
    retry: str | None
    on_success_url: str | None
    on_failure_url: str | None
    follows_job_id: UUID | None
    first_due_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionRow:
    """One attempt as stored."""

    number: int
    queue_generation: int
    attempt: int
    status: str
    due_at: datetime
    started_at: datetime
    finished_at: datetime
    status_code: int | None
    error_class: str | None
    error: str | None
    timings: dict[str, Any]
    response_headers: list[Any]
    response_body: str
    response_truncated: bool
    worker: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs a list holds. `client_id` None is every client's: for users of the dashboard, never for programs."""

    client_id: int | None
    status: str | None = None


_QUEUE = select(Queue.name).where(Queue.id == Job.queue_id).scalar_subquery()


def columns_of(kind: type[JobRow]) -> list[Any]:
    """What a query selects to make rows of this kind."""
    return [_QUEUE.label("queue") if field.name == "queue" else getattr(Job, field.name) for field in fields(kind)]


_SUMMARY = columns_of(JobRow)
_DETAIL = columns_of(JobDetail)
_EXECUTION = [getattr(Execution, name) for name in ExecutionRow.__slots__]


def get_job(engine: Engine, client_id: int | None, job_id: UUID) -> JobDetail | None:
    """The job; None when there is none, or it is another client's."""
    query = select(*_DETAIL).where(Job.id == job_id)
    if client_id is not None:
        query = query.where(Job.client_id == client_id)
    with autocommit(engine) as conn:
        row = conn.execute(query).mappings().one_or_none()
    return None if row is None else JobDetail(**row)


def list_jobs(
    engine: Engine, wanted: JobFilter, limit: int, offset: int = 0, after: UUID | None = None
) -> Sequence[JobRow]:
    """Up to `limit` jobs, newest first; `after` begins below the job with that id, which need not exist any more.

    Ids are UUIDv7, so their order is that of time, and a page costs the same however deep it lies. `offset` is walked.
    """
    query = select(*_SUMMARY).order_by(Job.id.desc()).limit(limit).offset(offset)
    if wanted.client_id is not None:
        query = query.where(Job.client_id == wanted.client_id)
    if wanted.status is not None:
        query = query.where(Job.status == wanted.status)
    if after is not None:
        query = query.where(Job.id < after)
    with autocommit(engine) as conn:
        return [JobRow(**row) for row in conn.execute(query).mappings()]


def list_dead_letters(
    engine: Engine, client_id: int | None, limit: int, offset: int = 0, after: UUID | None = None
) -> Sequence[JobRow]:
    """The dead jobs, newest first."""
    return list_jobs(engine, JobFilter(client_id=client_id, status=DEAD), limit, offset, after)


def list_executions(engine: Engine, client_id: int | None, job_id: UUID) -> Sequence[ExecutionRow] | None:
    """The job's attempts, oldest first; None when there is no such job, or it is another client's."""
    owner = select(Job.id).where(Job.id == job_id)
    if client_id is not None:
        owner = owner.where(Job.client_id == client_id)
    attempts = select(*_EXECUTION).where(Execution.job_id == job_id)
    attempts = attempts.order_by(Execution.queue_generation, Execution.attempt)
    with autocommit(engine) as conn:
        if conn.execute(owner).one_or_none() is None:
            return None
        return [ExecutionRow(**row) for row in conn.execute(attempts).mappings()]
