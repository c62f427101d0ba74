"""API keys: making, listing, revoking and looking them up. Only a key's SHA-256 is kept."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import structlog
from sqlalchemy import Connection, Engine, RowMapping, text
from sqlalchemy.exc import SQLAlchemyError

from app.clients import get_or_create_client
from app.database import autocommit, transaction

logger = structlog.get_logger(__name__)

# 32 random bytes are 43 url-safe characters.
KEY_BYTES = 32
KEY_FORM = re.compile(r"pk_[A-Za-z0-9_-]{43}")
# `pk_` and eight characters: enough to tell keys apart, no help in guessing the other 35.
PREFIX_LENGTH = 11
MAX_LABEL_LENGTH = 128
MAX_EXPIRY_DAYS = 36_500

INSERT = text("""
    INSERT INTO api_keys (client_id, label, prefix, hashed_key, expires_at)
    VALUES (:client_id, :label, :prefix, :hashed_key, punctual_now() + make_interval(days => CAST(:days AS int)))
    ON CONFLICT (prefix) DO NOTHING RETURNING id
""")
LOOK_UP = text("""
    WITH clock AS MATERIALIZED (SELECT punctual_now() AS now)
    SELECT k.id, k.client_id, k.prefix, c.name AS client_name, c.rate_limit_per_minute,
           extract(epoch FROM k.expires_at - clock.now)::float8 AS expires_in_seconds,
           coalesce(k.last_used_at < clock.now - interval '1 minute', true) AS is_use_unnoted
    FROM api_keys k JOIN clients c ON c.id = k.client_id CROSS JOIN clock
    WHERE k.hashed_key = :hashed_key AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > clock.now)
""")
# A locked row is being noted by somebody else this moment, or is being revoked: nothing to wait for.
NOTE_USE = text("""
    UPDATE api_keys SET last_used_at = punctual_now()
    WHERE id IN (SELECT id FROM api_keys
                 WHERE id = :id AND (last_used_at IS NULL OR last_used_at < (SELECT punctual_now()) - interval '1 minute')
                 FOR NO KEY UPDATE SKIP LOCKED)
""")
REVOKE = text(
    "UPDATE api_keys SET revoked_at = punctual_now() WHERE prefix = :prefix AND revoked_at IS NULL RETURNING id"
)
LIST = text("""
    SELECT k.prefix, k.label, c.name AS client_name, coalesce(c.rate_limit_per_minute, 0) AS rate_limit_per_minute,
           k.created_at, k.last_used_at, k.expires_at, k.revoked_at,
           CASE WHEN k.revoked_at IS NOT NULL THEN 'revoked' WHEN k.expires_at <= punctual_now() THEN 'expired'
                ELSE 'active' END AS state
    FROM api_keys k JOIN clients c ON c.id = k.client_id ORDER BY c.name, k.id
""")


class KeyInvalid(ValueError):
    """A key that cannot be made; the message says what is wrong and what it takes."""


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key just made: the only time that `key` itself is known."""

    key: str
    prefix: str
    client_id: int


@dataclass(frozen=True, slots=True)
class Bearer:
    """Whom a valid key stands for. `rate_limit` None: the default one; `expires_in_seconds` None: never."""

    client_id: int
    client_name: str
    prefix: str
    rate_limit: int | None
    expires_in_seconds: float | None


def create_api_key(
    engine: Engine,
    client_name: str,
    *,
    label: str | None = None,
    rate_limit: int | None = None,
    expires_in_days: int | None = None,
) -> NewKey:
    """Makes a key, and its client when that is new. Raises KeyInvalid, and ClientInvalid from app.clients."""
    label = (label or "").strip() or None
    if label is not None and (len(label) > MAX_LABEL_LENGTH or not label.isprintable()):
        raise KeyInvalid(f"The label takes up to {MAX_LABEL_LENGTH} printable characters.")
    if expires_in_days is not None and not 1 <= expires_in_days <= MAX_EXPIRY_DAYS:
        raise KeyInvalid(f"The key would expire in {expires_in_days} days: it takes 1 to {MAX_EXPIRY_DAYS:,}.")
    with transaction(engine) as conn:
        client_id = get_or_create_client(conn, client_name, rate_limit)
        while True:
            key = f"pk_{secrets.token_urlsafe(KEY_BYTES)}"
            values = {"client_id": client_id, "label": label, "prefix": key[:PREFIX_LENGTH], "days": expires_in_days}
            # Prefixes are unique, so that `revoke` means one key: a taken one (1 in 2^48) is drawn again.
            if conn.execute(INSERT, {**values, "hashed_key": hashed(key)}).scalar_one_or_none() is not None:
                return NewKey(key, key[:PREFIX_LENGTH], client_id)


def list_api_keys(engine: Engine) -> Sequence[RowMapping]:
    """Every key as its prefix, label, client and times, by client and age. `rate_limit_per_minute` 0: the default one."""
    with autocommit(engine) as conn:
        return conn.execute(LIST).mappings().all()


def revoke_api_key(engine: Engine, prefix: str) -> Literal["revoked", "already", "missing"]:
    """Ends a key for good. Web processes that know it notice within app.auth.KEY_CACHE_SECONDS."""
    with autocommit(engine) as conn:
        if conn.execute(REVOKE, {"prefix": prefix}).one_or_none() is not None:
            return "revoked"
        known = conn.execute(text("SELECT 1 FROM api_keys WHERE prefix = :prefix"), {"prefix": prefix}).one_or_none()
        return "already" if known else "missing"


def look_up(engine: Engine, key: str) -> Bearer | None:
    """Whom a key stands for, and notes its use at most once a minute. None: unknown, revoked, expired or malformed."""
    if KEY_FORM.fullmatch(key) is None:
        return None
    with autocommit(engine) as conn:
        row: Any = conn.execute(LOOK_UP, {"hashed_key": hashed(key)}).one_or_none()
        if row is None:
            return None
        if row.is_use_unnoted:
            _note_use(conn, row.id, row.prefix)
    return Bearer(row.client_id, row.client_name, row.prefix, row.rate_limit_per_minute, row.expires_in_seconds)


def hashed(key: str) -> bytes:
    """What is kept of a key. A plain SHA-256 will do: 256 random bits cannot be guessed however fast one tries."""
    return hashlib.sha256(key.encode()).digest()


def _note_use(conn: Connection, key_id: int, prefix: str) -> None:
    """Never fails a request: when a key was last used is a help to people, not a promise."""
    try:
        conn.execute(NOTE_USE, {"id": key_id})
    except SQLAlchemyError as error:
        logger.warning("key_use_not_noted", api_key_prefix=prefix, error=str(error).splitlines()[0])
