"""Circuits: whether a client's calls to one host go through, or are held back because they keep failing."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, CheckConstraint, DateTime, ForeignKey, Index, Integer, String, text
from sqlalchemy.orm import Mapped, mapped_column

from app.models.declarative import Base, Instant, db_now


class Circuit(Base):
    """Open while `opened_at` is set; from `retry_at` on, one job at a time tries. See app.circuits.rules."""

    __tablename__ = "circuits"
    __table_args__ = (
        CheckConstraint("(opened_at IS NULL) = (retry_at IS NULL)", name="retry_at"),
        # claim: the few that are open
        Index("ix_circuits_open", "client_id", "host", postgresql_where=text("opened_at IS NOT NULL")),
    )

    client_id: Mapped[int] = mapped_column(ForeignKey("clients.id"), primary_key=True)
    host: Mapped[str] = mapped_column(String(300), primary_key=True)
    opened_at: Mapped[Instant | None]
    retry_at: Mapped[Instant | None]
    trips: Mapped[int] = mapped_column(Integer, server_default="0")
    openings: Mapped[int] = mapped_column(BigInteger, server_default="0")
    probe_job_id: Mapped[UUID | None]
    probe_at: Mapped[Instant | None]
    spans: Mapped[list[Instant]] = mapped_column(ARRAY(DateTime(timezone=True)), server_default=text("'{}'"))
    successes: Mapped[list[int]] = mapped_column(ARRAY(Integer), server_default=text("'{}'"))
    failures: Mapped[list[int]] = mapped_column(ARRAY(Integer), server_default=text("'{}'"))
    changed_at: Mapped[Instant] = mapped_column(server_default=db_now())
