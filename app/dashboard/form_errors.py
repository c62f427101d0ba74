"""What is wrong with a form, by its fields: from what the API's rules say of a request to sentences for a person."""

from __future__ import annotations

import re
from collections.abc import Mapping

from app.errors import InvalidRequest

_TEMPLATE = "job_template."
_WAIT = re.compile(r"delays\.([0-9]+)")
# The form's field for each of the API's that is called otherwise.
FIELDS = {"retry": "backoff", "delay_seconds": "when", "run_at": "when", "catch_up_window_seconds": "window"}
_PREDICATES = ("must ", "is ", "has ", "lies ", "names ")


class FormRefused(ValueError):
    """A form that makes nothing: what is wrong, by field."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__(", ".join(errors))
        self.errors = dict(errors)


def told(error: InvalidRequest, otherwise: str) -> dict[str, str]:
    """What was refused, by the form's fields, as sentences. What names no field is told at `otherwise`."""
    found: dict[str, str] = {}
    for row in error.details or [{"field": otherwise, "message": error.message}]:
        found.setdefault(_field(row["field"]), _sentence(row["message"], _subject(row["field"])))
    return found


def _field(name: str) -> str:
    name = _bare(name).split(".")[0]
    return FIELDS.get(name, name)


def _subject(name: str) -> str:
    wait = _WAIT.fullmatch(_bare(name))
    return "It" if wait is None else f"Wait {int(wait[1]) + 1}"


def _bare(name: str) -> str:
    return name.removeprefix(_TEMPLATE).removeprefix("retry.")


def _sentence(message: str, subject: str) -> str:
    words = f"{subject} {message}" if message.startswith(_PREDICATES) else message
    return f"{words[:1].upper()}{words[1:]}".rstrip(".") + "."
