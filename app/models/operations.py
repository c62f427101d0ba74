"""What operates Punctual: living processes, the leader, counts by the minute, and who did what."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Identity, Index, Integer, SmallInteger, String, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, mapped_column

from app.models.declarative import Base, Instant, db_now

PROCESS_KINDS = ("worker", "scheduler")


class Process(Base):
    """One start of a worker or scheduler. `lost_at`: declared lost, its claims are gone (C17); `stopped_at`: left in order."""

    __tablename__ = "processes"
    __table_args__ = (CheckConstraint(f"kind IN {PROCESS_KINDS}", name="kind"),)

    id: Mapped[UUID] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    host: Mapped[str] = mapped_column(String(255))
    pid: Mapped[int] = mapped_column(Integer)
    version: Mapped[str] = mapped_column(String(32))
    started_at: Mapped[Instant] = mapped_column(server_default=db_now())
    beat_at: Mapped[Instant] = mapped_column(server_default=db_now())
    lost_at: Mapped[Instant | None]
    stopped_at: Mapped[Instant | None]
    doing: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=text("'{}'"))


class Leader(Base):
    """The one row that says which scheduler leads (C21)."""

    __tablename__ = "leader"
    __table_args__ = (CheckConstraint("id = 1", name="one_row"),)

    id: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    holder: Mapped[UUID | None]
    acquired_at: Mapped[Instant | None]
    expires_at: Mapped[Instant] = mapped_column(server_default=db_now())


class MinuteStat(Base):
    """Ended attempts by minute, client and outcome; pruning jobs does not lower them. Buckets: app.jobs.stats."""

    __tablename__ = "minute_stats"

    minute: Mapped[Instant] = mapped_column(primary_key=True)
    client_id: Mapped[int] = mapped_column(ForeignKey("clients.id"), primary_key=True)
    outcome: Mapped[str] = mapped_column(String(16), primary_key=True)
    count: Mapped[int] = mapped_column(BigInteger)
    start_lag_buckets: Mapped[list[int]] = mapped_column(ARRAY(BigInteger))
    callback_time_buckets: Mapped[list[int]] = mapped_column(ARRAY(BigInteger))


class AuditEntry(Base):
    """One change made by a person or a key."""

    __tablename__ = "audit_log"
    __table_args__ = (
        Index("ix_audit_log_at", "at", "id"),
        Index("ix_audit_log_target", "target_kind", "target_id", "id"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    at: Mapped[Instant] = mapped_column(server_default=db_now())
    actor_kind: Mapped[str] = mapped_column(String(16))
    actor: Mapped[str] = mapped_column(String(128))
    client_id: Mapped[int | None] = mapped_column(ForeignKey("clients.id"))
    action: Mapped[str] = mapped_column(String(64))
    target_kind: Mapped[str] = mapped_column(String(32))
    target_id: Mapped[str] = mapped_column(String(128))
    detail: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=text("'{}'"))
    address: Mapped[str | None] = mapped_column(String(64))
