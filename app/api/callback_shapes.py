"""What a call looks like in answers."""

from __future__ import annotations

from typing import Any, Protocol

from app.api.strict_json import Raw
from app.callback import (
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    DEFAULT_TIMEOUT_SECONDS,
    content_type_of,
    headers_of,
    statuses_shown,
)
from app.cron_entries import Entry
from app.retry_policy import shown


class Stored(Protocol):
    """A job or a cron entry, with its texts as app.callback stores them."""

    @property
    def payload(self) -> str | None: ...
    @property
    def content_type(self) -> str | None: ...
    @property
    def headers(self) -> str: ...
    @property
    def timeout_seconds(self) -> float: ...
    @property
    def success_statuses(self) -> str | None: ...
    @property
    def retry(self) -> str | None: ...
    @property
    def on_success_url(self) -> str | None: ...
    @property
    def on_failure_url(self) -> str | None: ...


def template(stored: Stored) -> dict[str, Any]:
    """The fields of a request that asks for this call, but for those that would say what holds anyway."""
    values = callback(stored)
    is_default = {
        "headers": not values["headers"],
        "payload": stored.payload is None or stored.content_type is not None,
        "content_type": stored.content_type is None,
        "timeout_seconds": stored.timeout_seconds == DEFAULT_TIMEOUT_SECONDS,
        "success_statuses": stored.success_statuses is None,
        "retry": stored.retry is None,
    }
    values["retry"] = {name: value for name, value in values["retry"].items() if value is not None}
    return {name: value for name, value in values.items() if not is_default.get(name, value is None)}


def placement(entry: Entry) -> dict[str, Any]:
    """Queue, priority and tags of a template, where they are not the default."""
    given = {"queue": entry.queue, "priority": entry.priority, "tags": entry.tags}
    defaults = {"queue": DEFAULT_QUEUE, "priority": DEFAULT_PRIORITY, "tags": []}
    return {name: value for name, value in given.items() if value != defaults[name]}


def callback(stored: Stored) -> dict[str, Any]:
    """The call, as it was asked for; a JSON payload with its very text."""
    is_json = stored.payload is not None and stored.content_type is None
    return {
        "headers": dict(headers_of(stored.headers)),
        "payload": Raw(stored.payload or "null", None) if is_json else None,
        "body": None if is_json else stored.payload,
        "content_type": content_type_of(stored.payload, stored.content_type),
        "timeout_seconds": stored.timeout_seconds,
        "success_statuses": statuses_shown(stored.success_statuses),
        "retry": shown(stored.retry),
        "on_success_url": stored.on_success_url,
        "on_failure_url": stored.on_failure_url,
    }
