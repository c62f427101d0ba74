"""The people who sign in to the dashboard: making, checking, disabling; sessions end by raising an epoch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, text

from app.database import autocommit, transaction
from app.models import ROLES
from app.passwords import check_password, hash_password, is_outdated, is_password

NAME_FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
NAME_RULE = "The user name takes 1 to 64 letters, digits, dots, hyphens, underscores, @ and +, a letter or digit first."

COLUMNS = "id, name, role, session_epoch, created_at, last_sign_in_at, disabled_at"
INSERT = text(f"""
    INSERT INTO users (name, role, password_hash) VALUES (:name, :role, :password_hash)
    ON CONFLICT (lower(name)) DO NOTHING RETURNING {COLUMNS}
""")
BY_NAME = text(f"SELECT {COLUMNS}, password_hash FROM users WHERE lower(name) = lower(:name)")
BY_ID = text(f"SELECT {COLUMNS} FROM users WHERE id = :id")
ALL = text(f"SELECT {COLUMNS} FROM users ORDER BY lower(name)")
SIGNED_IN = text("""
    UPDATE users SET last_sign_in_at = punctual_now(), password_hash = coalesce(:new_hash, password_hash)
    WHERE id = :id AND password_hash = :old_hash AND disabled_at IS NULL RETURNING id
""")
# Each of these ends the user's sessions, but for `ENABLE`: they ended when the user was disabled.
SET_PASSWORD = text(f"""
    UPDATE users SET password_hash = :password_hash, session_epoch = session_epoch + 1
    WHERE lower(name) = lower(:name) RETURNING {COLUMNS}
""")
DISABLE = text(f"""
    UPDATE users SET disabled_at = punctual_now(), session_epoch = session_epoch + 1
    WHERE lower(name) = lower(:name) AND disabled_at IS NULL RETURNING {COLUMNS}
""")
SET_ROLE = text(f"UPDATE users SET role = :role WHERE id = :id RETURNING {COLUMNS}")
# One at a time, so that two admins cannot each take away the other's role as the last but one.
LOCK_ADMINS = text("SELECT id FROM users WHERE role = 'admin' AND disabled_at IS NULL ORDER BY id FOR UPDATE")
END_SESSIONS = text("UPDATE users SET session_epoch = session_epoch + 1 WHERE id = :id")
ENABLE = text(f"""
    UPDATE users SET disabled_at = NULL WHERE lower(name) = lower(:name) AND disabled_at IS NOT NULL RETURNING {COLUMNS}
""")


class UserInvalid(ValueError):
    """A user that cannot be made; the message says why."""


@dataclass(frozen=True, slots=True)
class Person:
    """A user as others may see them: everything but the password's hash."""

    id: int
    name: str
    role: str
    session_epoch: int
    created_at: datetime
    last_sign_in_at: datetime | None
    disabled_at: datetime | None

    @property
    def is_enabled(self) -> bool:
        return self.disabled_at is None


def create_user(engine: Engine, name: str, role: str, password: str) -> Person:
    """Makes a user. Raises UserInvalid for a bad or taken name (in any case) or an unknown role, and PasswordRefused."""
    if NAME_FORM.fullmatch(name) is None:
        raise UserInvalid(NAME_RULE)
    if role not in ROLES:
        raise UserInvalid(f"The role is {role!r}: it takes one of {', '.join(ROLES)}.")
    check_password(password, name)
    values = {"name": name, "role": role, "password_hash": hash_password(password)}
    with autocommit(engine) as conn:
        made = _person(conn.execute(INSERT, values).one_or_none())
    if made is None:
        raise UserInvalid(f"There is a user named {name} already.")
    return made


def sign_in(engine: Engine, name: str, password: str) -> Person | None:
    """The user, when name and password belong together and the user is not disabled; notes the time.

    A refusal takes the same time whether the name is unknown, the user disabled or the password wrong. No connection is
    held while the hash is computed. A password changed in between counts as wrong.
    """
    with autocommit(engine) as conn:
        row = conn.execute(BY_NAME, {"name": name}).one_or_none() if NAME_FORM.fullmatch(name) else None
    if not is_password(row.password_hash if row else None, password) or row is None:
        return None
    new_hash = hash_password(password) if is_outdated(row.password_hash) else None
    with autocommit(engine) as conn:
        values = {"id": row.id, "old_hash": row.password_hash, "new_hash": new_hash}
        return _find(conn, row.id) if conn.execute(SIGNED_IN, values).one_or_none() else None


def set_password(engine: Engine, name: str, password: str) -> Person | None:
    """Gives a user another password and ends their sessions. None: nobody has that name. Raises PasswordRefused."""
    check_password(password, name)
    values = {"name": name, "password_hash": hash_password(password)}
    with autocommit(engine) as conn:
        return _person(conn.execute(SET_PASSWORD, values).one_or_none())


def end_sessions(engine: Engine, user_id: int) -> None:
    """Signs a user out everywhere."""
    with autocommit(engine) as conn:
        conn.execute(END_SESSIONS, {"id": user_id})


def disable_user(engine: Engine, name: str) -> Person | None:
    """Ends a user's sessions and lets them sign in no more. None: no user of that name was enabled."""
    with autocommit(engine) as conn:
        return _person(conn.execute(DISABLE, {"name": name}).one_or_none())


def enable_user(engine: Engine, name: str) -> Person | None:
    """Lets a disabled user sign in again. None: no user of that name was disabled."""
    with autocommit(engine) as conn:
        return _person(conn.execute(ENABLE, {"name": name}).one_or_none())


def set_role(engine: Engine, user_id: int, role: str) -> Person | None:
    """Gives a user another role. None: there is no such user. Raises UserInvalid, also for the last admin's."""
    if role not in ROLES:
        raise UserInvalid(f"The role is {role!r}: it takes one of {', '.join(ROLES)}.")
    with transaction(engine) as conn:
        _keep_an_admin(conn, user_id, role == "admin")
        return _person(conn.execute(SET_ROLE, {"id": user_id, "role": role}).one_or_none())


def disable_by_id(engine: Engine, user_id: int) -> Person | None:
    """As `disable_user`, for a page: raises UserInvalid for the last admin, who would lock everybody out."""
    with transaction(engine) as conn:
        _keep_an_admin(conn, user_id, False)
        person = _find(conn, user_id)
        return _person(conn.execute(DISABLE, {"name": person.name}).one_or_none()) if person else None


def _keep_an_admin(conn: Connection, user_id: int, stays_admin: bool) -> None:
    admins = [row.id for row in conn.execute(LOCK_ADMINS)]
    if admins == [user_id] and not stays_admin:
        raise UserInvalid("This is the only admin: make another one first.")


def find_user(engine: Engine, user_id: int) -> Person | None:
    """The user with this id, or None."""
    with autocommit(engine) as conn:
        return _find(conn, user_id)


def find_user_by_name(engine: Engine, name: str) -> Person | None:
    """The user with this name in any case, or None."""
    with autocommit(engine) as conn:
        row = conn.execute(BY_NAME, {"name": name}).one_or_none()
    return _person(row)


def list_users(engine: Engine) -> Sequence[Person]:
    """Every user by name."""
    with autocommit(engine) as conn:
        return [person for person in map(_person, conn.execute(ALL)) if person is not None]


def _find(conn: Connection, user_id: int) -> Person | None:
    return _person(conn.execute(BY_ID, {"id": user_id}).one_or_none())


def _person(row: Any) -> Person | None:
    return row and Person(
        row.id, row.name, row.role, row.session_epoch, row.created_at, row.last_sign_in_at, row.disabled_at
    )
