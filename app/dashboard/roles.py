"""Which role a page's view asks for: a mark on the view that the blueprint's guard reads, and that templates ask about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from flask_login import current_user

from app.models import ROLES

View = TypeVar("View", bound=Callable[..., Any])

ANYBODY = "anybody"
READING = ("GET", "HEAD", "OPTIONS")


def requires(role: str) -> Callable[[View], View]:
    """Marks a view: `viewer` sees, `operator` acts on jobs and cron entries, `admin` also manages keys and users.

    A view that changes something needs a mark, or the guard refuses everybody; one that only reads is for viewers.
    """
    if role not in ROLES:
        raise ValueError(f"there is no role {role!r}: it is one of {', '.join(ROLES)}")

    def mark(view: View) -> View:
        view.required_role = role  # type: ignore[attr-defined]
        return view

    return mark


def open_to_anybody(view: View) -> View:
    """Marks a view that needs no sign-in."""
    view.required_role = ANYBODY  # type: ignore[attr-defined]
    return view


def required_role(view: Callable[..., Any], method: str) -> str | None:
    """The role a request of this view needs, ANYBODY, or None: nobody said, and it may change something."""
    role: str | None = getattr(view, "required_role", None)
    return "viewer" if role is None and method in READING else role


def is_enough(role: str, required: str) -> bool:
    """Whether a user of `role` may do what `required` stands for."""
    return ROLES.index(role) >= ROLES.index(required)


def may(required: str) -> bool:
    """Whether who is signed in may do what `required` stands for; templates show nothing else."""
    return bool(current_user.is_authenticated) and is_enough(current_user.role, required)
