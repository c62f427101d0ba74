"""The audit log: who did what, when, to what. Written in the transaction of the change itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from sqlalchemy import Connection, insert

from app.models import AuditEntry

ActorKind = Literal["user", "api_key", "command", "system"]


def record(
    conn: Connection,
    actor_kind: ActorKind,
    actor: str,
    client_id: int | None,
    action: str,
    target_kind: str,
    target_id: str,
    detail: Mapping[str, Any] | None = None,
    address: str | None = None,
) -> None:
    """Notes one change. `actor` is a user's name, a key's prefix, a command or a part of Punctual, `action` a verb and its object such as `job.cancel`.

    `detail` says what changed, and never holds a key, a secret, a password or a payload. Texts longer than their columns are
    cut: a note that is too long must not undo the change it is about.
    """
    conn.execute(
        insert(AuditEntry).values(
            actor_kind=actor_kind,
            actor=actor[:128],
            client_id=client_id,
            action=action,
            target_kind=target_kind,
            target_id=target_id[:128],
            detail=dict(detail or {}),
            address=None if address is None else address[:64],
        )
    )
