"""What a person or program says about a cron entry, and the limits of each field. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, TypedDict

from app.callback import DEFAULT_QUEUE, Callback
from app.errors import InvalidRequest, invalid
from app.models.cron import (
    CATCH_UP_POLICIES,
    MAX_CATCH_UP_WINDOW_SECONDS,
    MAX_JITTER_SECONDS,
    OVERLAP_POLICIES,
)

MAX_NAME = 128
MAX_DESCRIPTION = 1000
MAX_TYPE = 128
MAX_ATTEMPTS = 100
# No control characters, no line separators: names end up in log lines and pages.
_PLAIN = re.compile(r"[^\u0000-\u001f\u007f-\u009f\u2028\u2029\ud800-\udfff]+")
_UNSTORABLE = re.compile(r"[\u0000\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Template(Callback):
    """What each job of an entry is made from."""

    job_type: str
    queue: str = DEFAULT_QUEUE


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A whole entry. `enabled` None leaves an entry that is there paused or not, as it is; a new one is enabled."""

    expression: str
    template: Template
    timezone: str = "UTC"
    name: str | None = None
    description: str | None = None
    overlap: str = "skip"
    catch_up: str = "one"
    catch_up_window_seconds: int = 3600
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    jitter_seconds: int = 0
    enabled: bool | None = None


class Change(TypedDict, total=False):
    """What to change; what is left out stays as it is."""

    name: str
    expression: str
    timezone: str
    template: Template
    description: str | None
    overlap: str
    catch_up: str
    catch_up_window_seconds: int
    starts_at: datetime | None
    ends_at: datetime | None
    jitter_seconds: int
    enabled: bool


def as_change(definition: Definition) -> Change:
    """The change that makes an entry what the definition says."""
    given: Any = {name: getattr(definition, name) for name in Definition.__slots__ if name != "enabled"}
    change: Change = given
    if definition.enabled is not None:
        change["enabled"] = definition.enabled
    return change


def columns(change: Change) -> dict[str, Any]:
    """The columns a change sets, without `enabled`, which is more than a column. Raises InvalidRequest."""
    values: dict[str, Any] = {name: value for name, value in change.items() if name not in ("template", "enabled")}
    if "template" in change:
        values |= {field.name: getattr(change["template"], field.name) for field in fields(Template)}
    if values.get("name") is not None:
        values["name"] = composed(values["name"])
    check(values)
    return values


def composed(name: str) -> str:
    """The name in Unicode's composed form (NFC), so that two spellings of one name are one. Raises InvalidRequest."""
    name = unicodedata.normalize("NFC", name)
    if not 1 <= len(name) <= MAX_NAME:
        raise invalid("name", f"it takes 1 to {MAX_NAME} characters, in Unicode's composed form.")
    if not _PLAIN.fullmatch(name):
        raise invalid("name", "it must not hold control characters or line separators.")
    return name


def check(values: Mapping[str, Any]) -> None:
    """Looks at each column that is given, but for the schedule and the address. Raises InvalidRequest."""
    for column, field, low, high in (
        ("catch_up_window_seconds", "catch_up_window_seconds", 0, MAX_CATCH_UP_WINDOW_SECONDS),
        ("jitter_seconds", "jitter_seconds", 0, MAX_JITTER_SECONDS),
        ("max_attempts", "job_template.max_attempts", 1, MAX_ATTEMPTS),
    ):
        if values.get(column) is not None and not low <= values[column] <= high:
            raise invalid(field, f"it takes {low} to {high:,}.")
    for column, allowed in (("overlap", OVERLAP_POLICIES), ("catch_up", CATCH_UP_POLICIES)):
        if column in values and values[column] not in allowed:
            raise invalid(column, f"it must be one of {', '.join(allowed)}.")
    job_type = values.get("job_type", "type")
    if len(job_type) > MAX_TYPE or not _PLAIN.fullmatch(job_type):
        raise invalid("job_template.type", f"it takes 1 to {MAX_TYPE} characters, none of them a control character.")
    check_text("description", values.get("description"))


def check_text(field: str, text: str | None) -> None:
    """A description or a reason. Raises InvalidRequest."""
    if text is not None and (len(text) > MAX_DESCRIPTION or _UNSTORABLE.search(text)):
        raise invalid(
            field, f"it takes at most {MAX_DESCRIPTION:,} characters, and neither NUL nor half of a surrogate pair."
        )


def check_bounds(starts_at: datetime | None, ends_at: datetime | None) -> None:
    """Raises InvalidRequest."""
    if starts_at is not None and ends_at is not None and starts_at >= ends_at:
        raise invalid("ends_at", "it must be later than starts_at.")


__all__ = ["Change", "Definition", "InvalidRequest", "Template", "as_change", "check_bounds", "columns", "composed"]
