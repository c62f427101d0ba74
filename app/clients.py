"""Clients (tenants): finding and making them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, RowMapping, select, text, update

from app.models import Client
from app.signing import new_secret

INSERT = text("""
    INSERT INTO clients (name, rate_limit_per_minute, signing_secret) VALUES (:name, :rate_limit, :secret)
    ON CONFLICT (name) DO NOTHING RETURNING id
""")
ROTATE = text("""
    UPDATE clients SET previous_signing_secret = CASE WHEN :hours > 0 THEN signing_secret END, signing_secret = :secret,
      previous_secret_expires_at = CASE WHEN :hours > 0 THEN punctual_now() + make_interval(hours => :hours) END
    WHERE id = :id RETURNING signing_secret
""")
MAX_NAME_LENGTH = 128
SECRET = text("""
    SELECT signing_secret, CASE WHEN previous_secret_expires_at > punctual_now() THEN previous_secret_expires_at END
    FROM clients WHERE id = :id
""")
SIGNING_NOW = text("""
    WITH clock AS MATERIALIZED (SELECT punctual_now() AS now)
    SELECT clock.now, c.signing_secret, CASE WHEN c.previous_secret_expires_at > clock.now THEN c.previous_signing_secret END
    FROM clock LEFT JOIN clients c ON c.id = :id
""")
DEFAULT_GRACE_HOURS, MAX_GRACE_HOURS = 24, 168
MAX_RATE_LIMIT = 10_000_000


class ClientInvalid(ValueError):
    """A client that cannot be made; the message says what is wrong and what it takes."""


def get_or_create_client(conn: Connection, name: str, rate_limit: int | None = None) -> int:
    """The id of the client `name`, made with a signing secret of its own when it is new.

    A `rate_limit` (requests a minute) is set on an existing client as well; None leaves it as it is.
    Raises ClientInvalid.
    """
    name = _checked_name(name)
    if rate_limit is not None:
        _check_rate_limit(rate_limit)
    made = conn.execute(INSERT, {"name": name, "rate_limit": rate_limit, "secret": new_secret()}).scalar_one_or_none()
    if made is not None:
        return int(made)
    # A statement of its own: the INSERT's snapshot need not see the row that was in its way.
    client_id = conn.execute(select(Client.id).where(Client.name == name)).scalar_one()
    if rate_limit is not None:
        set_rate_limit(conn, client_id, rate_limit)
    return client_id


def set_rate_limit(conn: Connection, client_id: int, rate_limit: int | None) -> None:
    """Gives a client its own number of requests a minute; None gives it the default one back. Raises ClientInvalid."""
    if rate_limit is not None:
        _check_rate_limit(rate_limit)
    conn.execute(update(Client).where(Client.id == client_id).values(rate_limit_per_minute=rate_limit))


def find_client(conn: Connection, name: str) -> int | None:
    """The id of the client `name`, or None."""
    return conn.execute(select(Client.id).where(Client.name == name.strip())).scalar_one_or_none()


def _checked_name(name: str) -> str:
    name = name.strip()
    if not name or len(name) > MAX_NAME_LENGTH or not name.isprintable():
        raise ClientInvalid(f"The client name takes 1 to {MAX_NAME_LENGTH} printable characters.")
    return name


def _check_rate_limit(rate_limit: int) -> None:
    if not 1 <= rate_limit <= MAX_RATE_LIMIT:
        raise ClientInvalid(f"The rate limit is {rate_limit}: it takes 1 to {MAX_RATE_LIMIT:,} requests a minute.")


def list_clients(conn: Connection) -> Sequence[RowMapping]:
    """Every client by name, with its quota and until when its previous signing secret is valid; never the secrets."""
    columns = (
        Client.id,
        Client.name,
        Client.rate_limit_per_minute,
        Client.created_at,
        Client.previous_secret_expires_at,
    )
    return conn.execute(select(*columns).order_by(Client.name)).mappings().all()


@dataclass(frozen=True, slots=True)
class SigningSecret:
    """A client's secret, and until when the one before it signs as well: None when there is none, or its time is over."""

    current: str
    previous_expires_at: datetime | None


def signing_secret(conn: Connection, client_id: int) -> SigningSecret:
    """What a client's callbacks are signed with now."""
    return SigningSecret(*conn.execute(SECRET, {"id": client_id}).one())


def signing_now(conn: Connection, client_id: int | None) -> tuple[datetime, tuple[str, ...]]:
    """(PostgreSQL's time, what a client's callbacks are signed with at that time: none without a client)."""
    now, *secrets = conn.execute(SIGNING_NOW, {"id": client_id}).one()
    return now, tuple(secret for secret in secrets if secret is not None)


def rotate_secret(conn: Connection, client_id: int, grace_hours: int) -> str | None:
    """A new signing secret; the one before it signs beside it for `grace_hours` (0 to 168). None: there is no such client.

    Raises ClientInvalid for another number of hours.
    """
    if not 0 <= grace_hours <= MAX_GRACE_HOURS:
        raise ClientInvalid(f"The old secret can stay valid for 0 to {MAX_GRACE_HOURS} hours.")
    row = conn.execute(ROTATE, {"id": client_id, "secret": new_secret(), "hours": grace_hours}).one_or_none()
    return None if row is None else str(row.signing_secret)
