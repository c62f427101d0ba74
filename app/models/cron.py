"""Cron entries and what became of each of their planned times."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import BigInteger, Boolean, CheckConstraint, ForeignKey, Identity, Index, Integer, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from app.models.declarative import Base, Instant, db_now

OVERLAP_POLICIES = ("allow", "skip", "buffer_one", "cancel_previous")
CATCH_UP_POLICIES = ("one", "all", "none")
OCCURRENCE_STATUSES = ("fired", "buffered", "skipped")


class CronEntry(Base):
    """A schedule and the job it makes. `next_run_at` is the next nominal time; null when there is none."""

    __tablename__ = "cron_entries"
    __table_args__ = (
        CheckConstraint(f"overlap IN {OVERLAP_POLICIES}", name="overlap"),
        CheckConstraint(f"catch_up IN {CATCH_UP_POLICIES}", name="catch_up"),
        CheckConstraint("catch_up_window_seconds BETWEEN 0 AND 31536000", name="catch_up_window"),
        CheckConstraint("max_attempts BETWEEN 1 AND 100", name="max_attempts"),
        Index(
            "uq_cron_entries_client_name",
            "client_id",
            "name",
            unique=True,
            postgresql_where=text("name IS NOT NULL"),
        ),
        # cron loop: the entries that are due
        Index("ix_cron_entries_due", "next_run_at", "id", postgresql_where=text("enabled")),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    client_id: Mapped[int] = mapped_column(ForeignKey("clients.id"), index=True)
    name: Mapped[str | None] = mapped_column(String(128))
    expression: Mapped[str] = mapped_column(String(255))
    timezone: Mapped[str] = mapped_column(String(64))
    job_type: Mapped[str] = mapped_column(String(128))
    payload: Mapped[str] = mapped_column(Text)
    callback_url: Mapped[str] = mapped_column(String(2048))
    callback_host: Mapped[str] = mapped_column(String(300))
    max_attempts: Mapped[int] = mapped_column(Integer)
    overlap: Mapped[str] = mapped_column(String(16), server_default="skip")
    catch_up: Mapped[str] = mapped_column(String(8), server_default="one")
    catch_up_window_seconds: Mapped[int] = mapped_column(Integer, server_default="3600")
    enabled: Mapped[bool] = mapped_column(Boolean, server_default=text("true"))
    disabled_reason: Mapped[str | None] = mapped_column(Text)
    next_run_at: Mapped[Instant | None]
    last_run_at: Mapped[Instant | None]
    last_job_id: Mapped[UUID | None]
    created_at: Mapped[Instant] = mapped_column(server_default=db_now())
    updated_at: Mapped[Instant] = mapped_column(server_default=db_now())


class CronOccurrence(Base):
    """One planned time: the job it made, or why it made none. A row with `count` > 1 stands for all up to `through_at`."""

    __tablename__ = "cron_occurrences"
    __table_args__ = (
        CheckConstraint(f"status IN {OCCURRENCE_STATUSES}", name="status"),
        # pruner: by age
        Index("ix_cron_occurrences_nominal_at", "nominal_at"),
    )

    cron_entry_id: Mapped[int] = mapped_column(ForeignKey("cron_entries.id", ondelete="CASCADE"), primary_key=True)
    nominal_at: Mapped[Instant] = mapped_column(primary_key=True)
    status: Mapped[str] = mapped_column(String(16))
    job_id: Mapped[UUID | None]
    reason: Mapped[str | None] = mapped_column(String(32))
    detail: Mapped[str | None] = mapped_column(Text)
    through_at: Mapped[Instant | None]
    count: Mapped[int] = mapped_column(Integer, server_default="1")
    created_at: Mapped[Instant] = mapped_column(server_default=db_now())
