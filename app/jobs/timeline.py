"""What a job's page tells beside the job itself: whose it is, who runs it, its attempts, and the jobs that told its end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Engine, select

from app.database import autocommit
from app.models import AuditEntry, Client, CronEntry, Execution, Job

# A job may have thousands of attempts over its life; a page shows the newest.
MOST_ATTEMPTS = 100
MOST_CHANGES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt without what was answered."""

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

    @property
    def lag_seconds(self) -> float:
        """From when it was due to when it began."""
        return (self.started_at - self.due_at).total_seconds()

    @property
    def took_seconds(self) -> float:
        return (self.finished_at - self.started_at).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What surrounds a job. `worker` and `lease_expires_at` only while it runs; `number` is that of its newest attempt."""

    client_name: str
    cron_name: str | None
    callback_host: str
    payload_bytes: int
    number: int
    worker: UUID | None
    lease_expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Change:
    """A line of the audit log about one job."""

    at: datetime
    actor: str
    action: str


@dataclass(frozen=True, slots=True)
class Telling:
    """A job that tells how another ended."""

    id: UUID
    status: str
    callback_url: str
    created_at: datetime


_ATTEMPT = [getattr(Execution, name) for name in Attempt.__slots__]


def facts(engine: Engine, job_id: UUID) -> JobFacts | None:
    """None when the job is gone."""
    query = (
        select(
            Client.name.label("client_name"),
            CronEntry.name.label("cron_name"),
            Job.callback_host,
            Job.payload_bytes,
            (Job.attempts_before + Job.attempts).label("number"),
            Job.worker,
            Job.lease_expires_at,
        )
        .join(Client, Client.id == Job.client_id)
        .outerjoin(CronEntry, CronEntry.id == Job.cron_entry_id)
        .where(Job.id == job_id)
    )
    with autocommit(engine) as conn:
        row = conn.execute(query).mappings().one_or_none()
    return None if row is None else JobFacts(**row)


def attempts(engine: Engine, job_id: UUID) -> list[Attempt]:
    """Up to MOST_ATTEMPTS ended attempts, newest first."""
    order = (Execution.queue_generation.desc(), Execution.attempt.desc())
    query = select(*_ATTEMPT).where(Execution.job_id == job_id).order_by(*order).limit(MOST_ATTEMPTS)
    with autocommit(engine) as conn:
        return [Attempt(**row) for row in conn.execute(query).mappings()]


def changes(engine: Engine, job_id: UUID) -> list[Change]:
    """Who did what to this job, newest first; a bulk change of many jobs is in the audit log alone."""
    query = select(AuditEntry.at, AuditEntry.actor, AuditEntry.action).where(
        AuditEntry.target_kind == "job", AuditEntry.target_id == str(job_id)
    )
    with autocommit(engine) as conn:
        return [Change(*row) for row in conn.execute(query.order_by(AuditEntry.id.desc()).limit(MOST_CHANGES))]


def tellings(engine: Engine, job_id: UUID) -> list[Telling]:
    """The jobs that tell how this one ended, newest first: one for each time it did."""
    query = select(Job.id, Job.status, Job.callback_url, Job.created_at).where(Job.follows_job_id == job_id)
    with autocommit(engine) as conn:
        return [Telling(*row) for row in conn.execute(query.order_by(Job.id.desc()).limit(MOST_CHANGES))]
