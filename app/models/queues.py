"""Queues: what limits the jobs of a client that carry its name."""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Computed,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Integer,
    String,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from app.models.declarative import Base, Instant, db_now

IS_LIMITED = "concurrency IS NOT NULL OR rate_limit IS NOT NULL OR paused_at IS NOT NULL"


class Queue(Base):
    """Made on first use. `rate_starts` and `rate_counts` are the starts of the last period, counted by when they were.

    Only a queue that is limited is locked when its jobs are claimed.
    """

    __tablename__ = "queues"
    __table_args__ = (
        UniqueConstraint("client_id", "name"),
        CheckConstraint("concurrency BETWEEN 1 AND 100000", name="concurrency"),
        CheckConstraint(
            "(rate_limit IS NULL) = (rate_period_seconds IS NULL) AND rate_limit BETWEEN 1 AND 1000000 "
            "AND rate_period_seconds BETWEEN 0.1 AND 604800",
            name="rate",
        ),
        CheckConstraint("default_max_attempts BETWEEN 1 AND 100", name="default_max_attempts"),
        CheckConstraint("default_timeout_seconds BETWEEN 0.1 AND 900", name="default_timeout"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    client_id: Mapped[int] = mapped_column(ForeignKey("clients.id"))
    name: Mapped[str] = mapped_column(String(64))
    concurrency: Mapped[int | None] = mapped_column(Integer)
    rate_limit: Mapped[int | None] = mapped_column(Integer)
    rate_period_seconds: Mapped[float | None] = mapped_column(Double)
    paused_at: Mapped[Instant | None]
    pause_reason: Mapped[str | None] = mapped_column(Text)
    paused_by: Mapped[str | None] = mapped_column(String(128))
    default_max_attempts: Mapped[int | None] = mapped_column(Integer)
    default_timeout_seconds: Mapped[float | None] = mapped_column(Double)
    circuit_breaker: Mapped[bool | None] = mapped_column(Boolean)
    is_limited: Mapped[bool] = mapped_column(Boolean, Computed(IS_LIMITED, persisted=True))
    rate_starts: Mapped[list[Instant]] = mapped_column(ARRAY(DateTime(timezone=True)), server_default=text("'{}'"))
    rate_counts: Mapped[list[int]] = mapped_column(ARRAY(Integer), server_default=text("'{}'"))
    created_at: Mapped[Instant] = mapped_column(server_default=db_now())
    updated_at: Mapped[Instant] = mapped_column(server_default=db_now())
