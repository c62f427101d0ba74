"""The columns of a call, the same for a job and for the template of a cron entry; see app.callback."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Double, Integer, SmallInteger, String, Text, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from app.callback import MAX_TIMEOUT_SECONDS, METHODS, MIN_TIMEOUT_SECONDS


class CallbackColumns:
    """How the call is made, what counts as success, what follows a failure, and what goes first."""

    payload: Mapped[str | None] = mapped_column(Text)
    callback_url: Mapped[str] = mapped_column(String(2048))
    callback_host: Mapped[str] = mapped_column(String(300))
    method: Mapped[str] = mapped_column(String(8), server_default="POST")
    headers: Mapped[str] = mapped_column(Text, server_default="[]")
    content_type: Mapped[str | None] = mapped_column(String(255))
    timeout_seconds: Mapped[float] = mapped_column(Double, server_default="10")
    success_statuses: Mapped[str | None] = mapped_column(Text)
    max_attempts: Mapped[int] = mapped_column(Integer)
    retry: Mapped[str | None] = mapped_column(Text)
    on_success_url: Mapped[str | None] = mapped_column(String(2048))
    on_success_host: Mapped[str | None] = mapped_column(String(300))
    on_failure_url: Mapped[str | None] = mapped_column(String(2048))
    on_failure_host: Mapped[str | None] = mapped_column(String(300))
    priority: Mapped[int] = mapped_column(SmallInteger, server_default="5")
    tags: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=text("'{}'"))


def callback_checks() -> tuple[CheckConstraint, ...]:
    """What the table itself holds about them."""
    return (
        CheckConstraint(f"method IN {METHODS}", name="method"),
        CheckConstraint(f"timeout_seconds BETWEEN {MIN_TIMEOUT_SECONDS} AND {MAX_TIMEOUT_SECONDS:g}", name="timeout"),
        CheckConstraint("priority BETWEEN 0 AND 9", name="priority"),
    )
