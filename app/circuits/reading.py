"""Which circuits are open."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Engine, text

from app.database import autocommit

OPEN = text("""
    SELECT o.host, o.client_id, c.name AS client_name, o.opened_at, o.retry_at, o.probe_at IS NOT NULL AS is_tried
    FROM circuits o JOIN clients c ON c.id = o.client_id WHERE o.opened_at IS NOT NULL ORDER BY o.opened_at DESC LIMIT :most
""")


@dataclass(frozen=True, slots=True)
class OpenCircuit:
    """Calls of a client to a host are held back since `opened_at`; at `retry_at` one job tries, or does now if `is_tried`."""

    host: str
    client_id: int
    client_name: str
    opened_at: datetime
    retry_at: datetime
    is_tried: bool


def open_circuits(engine: Engine, most: int = 50) -> list[OpenCircuit]:
    """The newest first."""
    with autocommit(engine) as conn:
        return [OpenCircuit(*row) for row in conn.execute(OPEN, {"most": most})]
