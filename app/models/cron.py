"""Cron entries and what became of each of their planned times."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Computed,
    ForeignKey,
    Identity,
    Index,
    Integer,
    SmallInteger,
    String,
    Text,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from app.models.callback import CallbackColumns, callback_checks
from app.models.declarative import Base, Instant, db_now

OVERLAP_POLICIES = ("allow", "skip", "buffer_one", "cancel_previous")
CATCH_UP_POLICIES = ("one", "all", "none")
OCCURRENCE_STATUSES = ("fired", "buffered", "skipped")
SKIP_REASONS = ("overlap", "missed", "paused", "changed", "error")
MAX_CATCH_UP_WINDOW_SECONDS = 365 * 24 * 3600
MAX_JITTER_SECONDS = 24 * 3600
# Kept by PostgreSQL itself, so that no statement can forget it. A stored column may only use what depends on no setting, and
# instants plus intervals do: on the session's time zone.
DUE_AT = "(next_run_at AT TIME ZONE 'UTC' + offset_ms * interval '1 millisecond') AT TIME ZONE 'UTC'"


class CronEntry(CallbackColumns, Base):
    """A schedule and the job it makes.

    `next_run_at` is the next nominal time, null when there is none; `due_at` is when it fires: `offset_ms` later, a fixed share
    of `jitter_seconds`. While an entry is paused, `next_run_at` is the first time it misses.
    """

    __tablename__ = "cron_entries"
    __table_args__ = (
        CheckConstraint(f"overlap IN {OVERLAP_POLICIES}", name="overlap"),
        CheckConstraint(f"catch_up IN {CATCH_UP_POLICIES}", name="catch_up"),
        CheckConstraint(f"catch_up_window_seconds BETWEEN 0 AND {MAX_CATCH_UP_WINDOW_SECONDS}", name="catch_up_window"),
        CheckConstraint(f"jitter_seconds BETWEEN 0 AND {MAX_JITTER_SECONDS}", name="jitter"),
        CheckConstraint(
            "offset_ms = 0 AND jitter_seconds = 0 OR offset_ms >= 0 AND offset_ms < jitter_seconds * 1000",
            name="offset",
        ),
        CheckConstraint("starts_at < ends_at", name="starts_before_ends"),
        CheckConstraint("NOT (enabled AND (paused_at IS NOT NULL OR disabled_reason IS NOT NULL))", name="enabled"),
        CheckConstraint("max_attempts BETWEEN 1 AND 100", name="max_attempts"),
        *callback_checks(),
        Index(
            "uq_cron_entries_client_name",
            "client_id",
            "name",
            unique=True,
            postgresql_where=text("name IS NOT NULL"),
        ),
        # cron loop: the entries that are due
        Index("ix_cron_entries_due", "due_at", "id", postgresql_where=text("enabled")),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    client_id: Mapped[int] = mapped_column(ForeignKey("clients.id"), index=True)
    name: Mapped[str | None] = mapped_column(String(128))
    expression: Mapped[str] = mapped_column(String(255))
    timezone: Mapped[str] = mapped_column(String(64))
    job_type: Mapped[str] = mapped_column(String(128))
    queue: Mapped[str] = mapped_column(String(64), server_default="default")
    overlap: Mapped[str] = mapped_column(String(16), server_default="skip")
    catch_up: Mapped[str] = mapped_column(String(8), server_default="one")
    catch_up_window_seconds: Mapped[int] = mapped_column(Integer, server_default="3600")
    description: Mapped[str | None] = mapped_column(Text)
    starts_at: Mapped[Instant | None]
    ends_at: Mapped[Instant | None]
    jitter_seconds: Mapped[int] = mapped_column(Integer, server_default="0")
    offset_ms: Mapped[int] = mapped_column(Integer, server_default="0")
    enabled: Mapped[bool] = mapped_column(Boolean, server_default=text("true"))
    disabled_reason: Mapped[str | None] = mapped_column(Text)
    paused_at: Mapped[Instant | None]
    pause_reason: Mapped[str | None] = mapped_column(Text)
    paused_by: Mapped[str | None] = mapped_column(String(128))
    next_run_at: Mapped[Instant | None]
    due_at: Mapped[Instant | None] = mapped_column(Computed(DUE_AT, persisted=True))
    last_run_at: Mapped[Instant | None]
    last_job_id: Mapped[UUID | None]
    created_at: Mapped[Instant] = mapped_column(server_default=db_now())
    updated_at: Mapped[Instant] = mapped_column(server_default=db_now())


class CronOccurrence(Base):
    """One planned time: the job it made, or why it made none. A row with `count` > 1 stands for all up to `through_at`.

    `due_at` is the time with the offset its entry had then.
    """

    __tablename__ = "cron_occurrences"
    __table_args__ = (
        CheckConstraint(f"status IN {OCCURRENCE_STATUSES}", name="status"),
        CheckConstraint("(status = 'skipped') = (reason IS NOT NULL)", name="reason"),
        CheckConstraint("(status = 'fired') = (job_id IS NOT NULL)", name="job"),
        # pruner: by age
        Index("ix_cron_occurrences_nominal_at", "nominal_at"),
        # cron loop: what waits for an entry's last job to end, one an entry
        Index(
            "uq_cron_occurrences_buffered", "cron_entry_id", unique=True, postgresql_where=text("status = 'buffered'")
        ),
    )

    cron_entry_id: Mapped[int] = mapped_column(ForeignKey("cron_entries.id", ondelete="CASCADE"), primary_key=True)
    nominal_at: Mapped[Instant] = mapped_column(primary_key=True)
    due_at: Mapped[Instant | None]
    status: Mapped[str] = mapped_column(String(16))
    job_id: Mapped[UUID | None]
    reason: Mapped[str | None] = mapped_column(String(32))
    detail: Mapped[str | None] = mapped_column(Text)
    through_at: Mapped[Instant | None]
    count: Mapped[int] = mapped_column(Integer, server_default="1")
    created_at: Mapped[Instant] = mapped_column(server_default=db_now())


class CronTotal(Base):
    """How many planned times fired, were buffered or skipped since the beginning, and why; pruning does not lower it.

    The sum over `slot` counts: connections that write at one moment use different rows, so that none waits for another.
    """

    __tablename__ = "cron_totals"

    status: Mapped[str] = mapped_column(String(16), primary_key=True)
    reason: Mapped[str] = mapped_column(String(32), primary_key=True)
    slot: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    count: Mapped[int] = mapped_column(BigInteger)
