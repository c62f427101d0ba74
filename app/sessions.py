"""Signed-in sessions, as the database knows them: one is over when its epoch is past, its user disabled, or it was signed out."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from sqlalchemy import Engine, text

from app import audit
from app.database import autocommit
from app.users import Person, end_sessions

# The sign-out of one session is read from the audit log (ix_audit_log_target): those notes must outlive the cookie's lifetime.
FIND = text("""
    SELECT id, name, role, session_epoch, created_at, last_sign_in_at, disabled_at FROM users
    WHERE id = :user_id AND session_epoch = :epoch AND disabled_at IS NULL
      AND NOT EXISTS (SELECT FROM audit_log WHERE target_kind = 'session' AND target_id = :session_id AND action = 'session.end')
""")


@dataclass(frozen=True, slots=True)
class Ticket:
    """What the session cookie says: whose session it is, of which epoch, and which of them."""

    user_id: int
    epoch: int
    session_id: str

    def __str__(self) -> str:
        return f"{self.user_id}.{self.epoch}.{self.session_id}"

    @classmethod
    def read(cls, value: str) -> Ticket | None:
        """The ticket that `str` made, or None for any other text."""
        user_id, _, rest = value.partition(".")
        epoch, _, session_id = rest.partition(".")
        if not (user_id.isascii() and user_id.isdigit() and epoch.isascii() and epoch.isdigit() and session_id):
            return None
        return cls(int(user_id), int(epoch), session_id)


def start(engine: Engine, person: Person, address: str) -> Ticket:
    """A new session of a user who has just proved to be that user."""
    ticket = Ticket(person.id, person.session_epoch, secrets.token_urlsafe(16))
    _note(engine, person, "session.start", "session", ticket.session_id, address)
    return ticket


def find(engine: Engine, ticket: Ticket) -> Person | None:
    """Whose session this is, or None when it is over."""
    with autocommit(engine) as conn:
        row = conn.execute(
            FIND, {"user_id": ticket.user_id, "epoch": ticket.epoch, "session_id": ticket.session_id}
        ).one_or_none()
    return None if row is None else Person(*row)


def end(engine: Engine, person: Person, ticket: Ticket, address: str) -> None:
    """Signs one session out, for every copy of its cookie; the user's other sessions go on."""
    _note(engine, person, "session.end", "session", ticket.session_id, address)


def end_all(engine: Engine, person: Person, address: str) -> None:
    """Signs the user out everywhere."""
    end_sessions(engine, person.id)
    _note(engine, person, "user.sign_out_everywhere", "user", person.name, address)


def note_new_password(engine: Engine, person: Person, address: str) -> None:
    """The audit log's line for a password that its owner changed."""
    _note(engine, person, "user.change_password", "user", person.name, address)


def _note(engine: Engine, person: Person, action: str, target_kind: str, target_id: str, address: str) -> None:
    with autocommit(engine) as conn:
        audit.record(conn, "user", person.name, None, action, target_kind, target_id, address=address)
