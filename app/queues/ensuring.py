"""Making a queue on first use."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, text

INSERT = text("INSERT INTO queues (client_id, name) VALUES (:client_id, :name) ON CONFLICT DO NOTHING")
FIND = text("""
    SELECT id, default_max_attempts, default_timeout_seconds FROM queues WHERE client_id = :client_id AND name = :name
""")


@dataclass(frozen=True, slots=True)
class Ensured:
    """A queue that is there, and what it gives jobs that do not say."""

    id: int
    default_max_attempts: int | None
    default_timeout_seconds: float | None


def ensure(conn: Connection, client_id: int, name: str) -> Ensured:
    """The client's queue of this name, made if there was none. Queues are never deleted."""
    named = {"client_id": client_id, "name": name}
    row = conn.execute(FIND, named).one_or_none()
    if row is None:
        conn.execute(INSERT, named)
        # A statement of its own: the INSERT's snapshot need not see the row that was in its way.
        row = conn.execute(FIND, named).one()
    return Ensured(*row)
