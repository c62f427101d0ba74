"""Changes of many jobs that run in the background."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, Double, ForeignKey, Identity, Index, Integer, String, Text, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from app.models.declarative import Base, Instant, db_now

BULK_ACTIONS = ("retry", "cancel", "delete")
BULK_STATES = ("waiting", "running", "done", "stopped", "failed")


class BulkOperation(Base):
    """Jobs up to `through_id` that match `filter` and have not changed since `created_at`; those above `after_id` are done with."""

    __tablename__ = "bulk_operations"
    __table_args__ = (
        CheckConstraint(f"action IN {BULK_ACTIONS}", name="action"),
        CheckConstraint(f"state IN {BULK_STATES}", name="state"),
        CheckConstraint("(finished_at IS NULL) = (state IN ('waiting', 'running'))", name="finished_at"),
        # the leader: what is to be done
        Index("ix_bulk_operations_open", "id", postgresql_where=text("state IN ('waiting', 'running')")),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    client_id: Mapped[int | None] = mapped_column(ForeignKey("clients.id"), index=True)
    action: Mapped[str] = mapped_column(String(16))
    filter: Mapped[dict[str, Any]] = mapped_column(JSONB)
    through_id: Mapped[UUID]
    after_id: Mapped[UUID | None]
    spread_seconds: Mapped[float | None] = mapped_column(Double)
    state: Mapped[str] = mapped_column(String(16), server_default="waiting")
    matched: Mapped[int] = mapped_column(Integer)
    changed: Mapped[int] = mapped_column(Integer, server_default="0")
    passed_by: Mapped[int] = mapped_column(Integer, server_default="0")
    error: Mapped[str | None] = mapped_column(Text)
    actor_kind: Mapped[str] = mapped_column(String(16))
    actor: Mapped[str] = mapped_column(String(128))
    address: Mapped[str | None] = mapped_column(String(64))
    created_at: Mapped[Instant] = mapped_column(server_default=db_now())
    finished_at: Mapped[Instant | None]
