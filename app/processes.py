"""Signs of life: each start of a worker or scheduler has a row in `processes` that it beats on (C17)."""

from __future__ import annotations

import os
import socket
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import JSON, Connection, bindparam, text

from app.version import VERSION

BEAT_SECONDS = 3.0
# No beat for so long: the process is lost.
SILENCE_SECONDS = 12
# A worker sends nothing when its last good beat is older than this, so that it never sends while it may be declared lost.
SEND_WITHIN_SECONDS = 8.0

REGISTER = text("""
    INSERT INTO processes (id, kind, host, pid, version) VALUES (:id, :kind, :host, :pid, :version)
    ON CONFLICT (id) DO UPDATE SET beat_at = punctual_now(),
                                   lost_at = CASE WHEN excluded.kind = 'scheduler' THEN NULL ELSE processes.lost_at END
    RETURNING punctual_now() AS now
""")
BEAT = text("""
    UPDATE processes SET beat_at = punctual_now(), doing = :doing WHERE id = :id AND lost_at IS NULL RETURNING punctual_now() AS now
""").bindparams(bindparam("doing", type_=JSON))
STOP = text("UPDATE processes SET stopped_at = punctual_now() WHERE id = :id AND stopped_at IS NULL")
MARK_LOST = text(f"""
    UPDATE processes SET lost_at = punctual_now()
    WHERE id IN (SELECT id FROM processes WHERE lost_at IS NULL AND stopped_at IS NULL
                   AND beat_at < (SELECT punctual_now()) - make_interval(secs => {SILENCE_SECONDS}) ORDER BY id FOR UPDATE SKIP LOCKED)
      AND lost_at IS NULL AND beat_at < punctual_now() - make_interval(secs => {SILENCE_SECONDS})
    RETURNING id, kind, host, pid
""")
ALIVE = text("SELECT id FROM processes WHERE lost_at IS NULL AND stopped_at IS NULL AND kind = 'worker'")


def register(conn: Connection, process_id: UUID, kind: str) -> datetime:
    """Makes the row of a fresh start; before it is there, nothing is claimed. Returns PostgreSQL's time.

    Repeated, it raises a scheduler that was declared lost, for it holds no claims; a worker is lost for good.
    """
    row = conn.execute(
        REGISTER,
        {"id": process_id, "kind": kind, "host": socket.gethostname()[:255], "pid": os.getpid(), "version": VERSION},
    ).one()
    now: datetime = row.now
    return now


def beat(conn: Connection, process_id: UUID, doing: dict[str, Any]) -> datetime | None:
    """PostgreSQL's time, or None: this process was declared lost, or its row is gone, and its claims with it."""
    row = conn.execute(BEAT, {"id": process_id, "doing": doing}).one_or_none()
    return None if row is None else row.now


def stop(conn: Connection, process_id: UUID) -> None:
    """Notes that the process left in order."""
    conn.execute(STOP, {"id": process_id})


def mark_lost(conn: Connection) -> list[dict[str, Any]]:
    """Declares lost what has not beaten for SILENCE_SECONDS. Returns id, kind, host and pid of each. For good: it must start anew."""
    return [dict(row) for row in conn.execute(MARK_LOST).mappings()]


def alive_workers(conn: Connection) -> set[str]:
    """The ids of workers that are neither lost nor stopped."""
    return {str(row.id) for row in conn.execute(ALIVE)}
