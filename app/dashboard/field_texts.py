"""What stands in the fields of a form, read one by one: as it was before, where that is what a field showed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from app.dashboard.callback_form import Stored
from app.dashboard.form_errors import FormRefused

Fields = Mapping[str, str]
# From the fields, and what they were filled from, to members of a request. Raises ValueError with a sentence for a person, or
# FormRefused where it concerns another field than the one it is named after.
Reader = Callable[[Fields, Stored | None], dict[str, Any]]


def read_each(
    fields: Fields, before: Stored | None, readers: Mapping[str, Reader]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The members that the readers find, and what is wrong, by field."""
    values: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for name, reader in readers.items():
        try:
            values |= reader(fields, before)
        except FormRefused as refused:
            errors |= refused.errors
        except ValueError as error:
            errors[name] = str(error)
    return values, errors


def kept(text: str, before: str | None) -> str:
    """What stands in a field; as it was before, where that is what the field showed."""
    return before if before is not None and _tidy(text) == _tidy(before) else text.strip()


def lines(text: str) -> str:
    """The text with the line ends that every browser's text area shows alike; they send CRLF."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def whole(text: str) -> int:
    """Raises ValueError with a sentence for a person."""
    text = text.strip()
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError("Give a whole number.")
    return int(text)


def _tidy(text: str) -> str:
    return lines(text).strip()
