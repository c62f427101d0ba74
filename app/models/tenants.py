"""Who may use Punctual: clients with their API keys, and the people who sign in."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Identity, Index, Integer, LargeBinary, String, text
from sqlalchemy.orm import Mapped, mapped_column

from app.models.declarative import Base, Instant, db_now

ROLES = ("viewer", "operator", "admin")


class Client(Base):
    """A tenant. Everything below it is seen by its own keys only."""

    __tablename__ = "clients"
    __table_args__ = (CheckConstraint("rate_limit_per_minute > 0", name="rate_limit_positive"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    name: Mapped[str] = mapped_column(String(128), unique=True)
    rate_limit_per_minute: Mapped[int | None] = mapped_column(Integer)
    signing_secret: Mapped[str] = mapped_column(String(128))
    previous_signing_secret: Mapped[str | None] = mapped_column(String(128))
    previous_secret_expires_at: Mapped[Instant | None]
    created_at: Mapped[Instant] = mapped_column(server_default=db_now())


class ApiKey(Base):
    """What a program signs in with. Only the key's SHA-256 is kept; the prefix is for people to tell keys apart."""

    __tablename__ = "api_keys"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    client_id: Mapped[int] = mapped_column(ForeignKey("clients.id"), index=True)
    label: Mapped[str | None] = mapped_column(String(128))
    prefix: Mapped[str] = mapped_column(String(16), unique=True)
    hashed_key: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    created_at: Mapped[Instant] = mapped_column(server_default=db_now())
    last_used_at: Mapped[Instant | None]
    expires_at: Mapped[Instant | None]
    revoked_at: Mapped[Instant | None]


class User(Base):
    """A person. `session_epoch` is part of every session: raising it ends them all."""

    __tablename__ = "users"
    __table_args__ = (
        CheckConstraint(f"role IN {ROLES}", name="role"),
        Index("uq_users_name_lower", text("lower(name)"), unique=True),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    name: Mapped[str] = mapped_column(String(128))
    password_hash: Mapped[str] = mapped_column(String(256))
    role: Mapped[str] = mapped_column(String(16))
    session_epoch: Mapped[int] = mapped_column(Integer, server_default="0")
    created_at: Mapped[Instant] = mapped_column(server_default=db_now())
    last_sign_in_at: Mapped[Instant | None]
    disabled_at: Mapped[Instant | None]
