"""What a form lets people choose from: clients by name."""

from __future__ import annotations

from sqlalchemy import select

from app.current import punctual
from app.database import autocommit
from app.models import Client

MOST_CLIENTS = 1000


def clients() -> dict[int, str]:
    """Names of clients by id, in order of their names."""
    query = select(Client.id, Client.name).order_by(Client.name).limit(MOST_CLIENTS)
    with autocommit(punctual().engine) as conn:
        return {row.id: row.name for row in conn.execute(query)}
