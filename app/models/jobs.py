"""Jobs and their executions, and the constraints that make wrong states unstorable."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    String,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from app.models.callback import CallbackColumns, callback_checks
from app.models.declarative import Base, Instant, db_now

STATUSES = ("pending", "scheduled", "running", "done", "dead", "cancelled")
UNCLAIMED = ("pending", "scheduled")
FINISHED = ("done", "dead", "cancelled")
EXECUTION_STATUSES = ("succeeded", "failed", "timed_out", "blocked", "lost")


class Job(CallbackColumns, Base):
    """One callback to deliver, once. Only app.jobs writes `status`.

    Queues are never deleted, and a foreign key would lock their rows at each submission: `queue_id` is none.
    `scheduled_for` is as asked, `first_due_at` when its present budget of attempts began to count. `follows_job_id` is the job
    whose end this one tells.
    """

    __tablename__ = "jobs"
    __table_args__ = (
        CheckConstraint(f"status IN {STATUSES}", name="status"),
        CheckConstraint("attempts BETWEEN 0 AND max_attempts AND max_attempts BETWEEN 1 AND 100", name="attempts"),
        CheckConstraint(f"(finished_at IS NOT NULL) = (status IN {FINISHED})", name="finished_at"),
        CheckConstraint(
            "(status = 'running') = (lease_expires_at IS NOT NULL) AND (status = 'running') = (worker IS NOT NULL)",
            name="lease",
        ),
        CheckConstraint("status <> 'running' OR attempts > 0", name="running_attempt"),
        *callback_checks(),
        # submit: one job a key and client
        Index(
            "uq_jobs_client_idempotency_key",
            "client_id",
            "idempotency_key",
            unique=True,
            postgresql_where=text("idempotency_key IS NOT NULL"),
        ),
        # loader, rescuer, rebuild: what is or will be due, by time
        Index("ix_jobs_due", "run_at", "id", postgresql_where=text("status IN ('pending', 'scheduled')")),
        # rescuer: what runs, and under whom
        Index("ix_jobs_running", "worker", "id", postgresql_where=text("status = 'running'")),
        # claim: what runs of a limited queue
        Index("ix_jobs_running_queue", "queue_id", postgresql_where=text("status = 'running'")),
        # lists by the time jobs are due
        Index("ix_jobs_run_at", "run_at"),
        # lists, newest first: a client's, a client's by status, and everybody's by status
        Index("ix_jobs_client_id", "client_id", "id"),
        Index("ix_jobs_client_status", "client_id", "status", "id"),
        Index("ix_jobs_status", "status", "id"),
        # pruner: finished jobs by age
        Index("ix_jobs_finished", "finished_at", postgresql_where=text("finished_at IS NOT NULL")),
        # cron: whether the last job of an entry still runs; an entry's jobs
        Index("ix_jobs_cron_entry", "cron_entry_id", "id", postgresql_where=text("cron_entry_id IS NOT NULL")),
        # a job's page: the jobs that told how it ended
        Index("ix_jobs_follows", "follows_job_id", postgresql_where=text("follows_job_id IS NOT NULL")),
        # lists of a queue's jobs, newest first; what waits in a queue
        Index("ix_jobs_queue", "queue_id", "id"),
        Index("ix_jobs_waiting", "queue_id", "run_at", postgresql_where=text("status IN ('pending', 'scheduled')")),
        # lists by tag
        Index("ix_jobs_tags", "tags", postgresql_using="gin", postgresql_where=text("tags <> '{}'")),
        # expirer: what was not started in time
        Index(
            "ix_jobs_expires",
            "expires_at",
            postgresql_where=text("expires_at IS NOT NULL AND status IN ('pending', 'scheduled')"),
        ),
        # search: newest first by type, by callback host, by error class
        Index("ix_jobs_type", "type", "id"),
        Index("ix_jobs_callback_host", "callback_host", "id"),
        Index("ix_jobs_error_class", "last_error_class", "id", postgresql_where=text("last_error_class IS NOT NULL")),
        # dead letters: groups by error class and host
        Index("ix_jobs_dead", "last_error_class", "callback_host", "id", postgresql_where=text("status = 'dead'")),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    client_id: Mapped[int] = mapped_column(ForeignKey("clients.id"))
    type: Mapped[str] = mapped_column(String(128))
    payload_bytes: Mapped[int] = mapped_column(Integer)
    queue_id: Mapped[int] = mapped_column(BigInteger)
    status: Mapped[str] = mapped_column(String(16))
    run_at: Mapped[Instant]
    scheduled_for: Mapped[Instant]
    expires_at: Mapped[Instant | None]
    dedupe_until: Mapped[Instant | None]
    first_due_at: Mapped[Instant] = mapped_column(server_default=db_now())
    attempts: Mapped[int] = mapped_column(Integer, server_default="0")
    attempts_before: Mapped[int] = mapped_column(Integer, server_default="0")
    queue_generation: Mapped[int] = mapped_column(Integer, server_default="0")
    idempotency_key: Mapped[str | None] = mapped_column(String(255))
    request_fingerprint: Mapped[bytes | None] = mapped_column(LargeBinary)
    cron_entry_id: Mapped[int | None] = mapped_column(ForeignKey("cron_entries.id", ondelete="SET NULL"))
    follows_job_id: Mapped[UUID | None]
    traceparent: Mapped[str | None] = mapped_column(String(55))
    lease_expires_at: Mapped[Instant | None]
    worker: Mapped[UUID | None]
    cancel_requested_at: Mapped[Instant | None]
    last_error: Mapped[str | None] = mapped_column(Text)
    last_error_class: Mapped[str | None] = mapped_column(String(32))
    last_status_code: Mapped[int | None] = mapped_column(SmallInteger)
    created_at: Mapped[Instant] = mapped_column(server_default=db_now())
    updated_at: Mapped[Instant] = mapped_column(server_default=db_now())
    started_at: Mapped[Instant | None]
    finished_at: Mapped[Instant | None]


class JobRevision(Base):
    """What a job was before it was edited, where attempts had been made: those up to `through_generation` sent this."""

    __tablename__ = "job_revisions"

    job_id: Mapped[UUID] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    through_generation: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    payload: Mapped[str | None] = mapped_column(Text)
    callback_url: Mapped[str] = mapped_column(String(2048))
    method: Mapped[str] = mapped_column(String(8))
    headers: Mapped[str] = mapped_column(Text)
    content_type: Mapped[str | None] = mapped_column(String(255))
    max_attempts: Mapped[int] = mapped_column(Integer)
    created_at: Mapped[Instant] = mapped_column(server_default=db_now())


class Execution(Base):
    """One attempt, written once when it ended (or was found lost). `number` counts over the job's whole life."""

    __tablename__ = "executions"
    __table_args__ = (
        CheckConstraint(f"status IN {EXECUTION_STATUSES}", name="status"),
        # the page of attempts, newest first
        Index("ix_executions_finished", "finished_at", "job_id"),
    )

    job_id: Mapped[UUID] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    queue_generation: Mapped[int] = mapped_column(Integer, primary_key=True)
    attempt: Mapped[int] = mapped_column(Integer, primary_key=True)
    number: Mapped[int] = mapped_column(Integer)
    status: Mapped[str] = mapped_column(String(16))
    due_at: Mapped[Instant]
    started_at: Mapped[Instant]
    finished_at: Mapped[Instant]
    status_code: Mapped[int | None] = mapped_column(SmallInteger)
    error_class: Mapped[str | None] = mapped_column(String(32))
    error: Mapped[str | None] = mapped_column(Text)
    timings: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=text("'{}'"))
    response_headers: Mapped[list[Any]] = mapped_column(JSONB, server_default=text("'[]'"))
    response_body: Mapped[str] = mapped_column(Text, server_default="")
    response_truncated: Mapped[bool] = mapped_column(Boolean, server_default=text("false"))
    worker: Mapped[UUID | None]
