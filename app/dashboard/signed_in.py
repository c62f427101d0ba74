"""Who is signed in, for flask-login: a session's ticket in the cookie, looked up once a request."""

from __future__ import annotations

from flask_login import UserMixin

from app import sessions
from app.current import punctual
from app.extensions import login_manager
from app.sessions import Ticket
from app.users import Person


class SignedIn(UserMixin):  # type: ignore[misc]
    """The user of this request. `person` is who, `ticket` which of their sessions."""

    def __init__(self, person: Person, ticket: Ticket) -> None:
        self.person = person
        self.ticket = ticket

    @property
    def id(self) -> int:
        return self.person.id

    @property
    def name(self) -> str:
        return self.person.name

    @property
    def role(self) -> str:
        return self.person.role

    def get_id(self) -> str:
        """What flask-login keeps in the cookie."""
        return str(self.ticket)


@login_manager.user_loader  # type: ignore[untyped-decorator]
def load_user(value: str) -> SignedIn | None:
    """The user of a cookie that is still good, or None."""
    ticket = Ticket.read(value)
    person = ticket and sessions.find(punctual().engine, ticket)
    return SignedIn(person, ticket) if person and ticket else None
