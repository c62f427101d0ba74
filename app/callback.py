"""What a callback is made of: its request, what counts as success, and what follows a failure. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, Final

DEFAULT_METHOD: Final = "POST"
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
# Methods whose request may do without a body.
BODYLESS = ("GET", "DELETE")
JSON_TYPE = "application/json"
TEXT_TYPE = "text/plain; charset=utf-8"
DEFAULT_ATTEMPTS = 5
MIN_TIMEOUT_SECONDS, DEFAULT_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS = 0.1, 10.0, 900.0
# 9 goes first. A level is a head start, so that nothing waits for ever.
MIN_PRIORITY, DEFAULT_PRIORITY, MAX_PRIORITY = 0, 5, 9
DEFAULT_QUEUE = "default"
MAX_HEADERS = 50
MAX_HEADER_NAME = 128
MAX_HEADER_VALUE = 8192
MIN_STATUS, MAX_STATUS = 200, 599
SUCCESS_STATUSES = ((200, 299),)

# What frames a message or belongs to one connection; RFC 9110, 7.6.1, and RFC 9112.
_FRAMING = {
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}
_PROXY = {"proxy-authorization", "proxy-connection"}
_OURS = {
    "content-type",
    "idempotency-key",
    "user-agent",
    "webhook-id",
    "webhook-signature",
    "webhook-timestamp",
    "x-job-attempt",
    "x-job-id",
    "x-job-max-attempts",
    "x-job-type",
}
# RFC 9110, 5.6.2.
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_STATUSES = re.compile(r"([2-5][0-9]{2})(?:-([2-5][0-9]{2}))?|([2-5])xx")

Headers = tuple[tuple[str, str], ...]
Statuses = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Callback:
    """A call as it is stored, with the job or the template of a cron entry.

    `payload` is the very text that is sent (None: no body): JSON, unless there is a `content_type`. `headers`, `retry` and
    `success_statuses` are texts in the one spelling that `headers_text`, `app.retry_policy.text_of` and `statuses_text` give them.
    `timeout_seconds` and `max_attempts` None: those of the queue, or else the defaults above.
    """

    payload: str | None
    callback_url: str
    callback_host: str
    method: str = DEFAULT_METHOD
    headers: str = "[]"
    content_type: str | None = None
    timeout_seconds: float | None = None
    success_statuses: str | None = None
    max_attempts: int | None = None
    retry: str | None = None
    on_success_url: str | None = None
    on_success_host: str | None = None
    on_failure_url: str | None = None
    on_failure_host: str | None = None
    priority: int = DEFAULT_PRIORITY
    tags: list[str] = field(default_factory=list)

    @property
    def payload_bytes(self) -> int:
        return 0 if self.payload is None else len(self.payload.encode())


COLUMNS = tuple(each.name for each in fields(Callback))


def values_of(callback: Callback) -> dict[str, Any]:
    """The columns of a callback; what a subclass adds is left out."""
    return {name: getattr(callback, name) for name in COLUMNS}


def content_type_of(payload: str | None, content_type: str | None) -> str | None:
    """The Content-Type that a stored callback is sent with; None when there is no body."""
    return None if payload is None else content_type or JSON_TYPE


def check_headers(headers: Iterable[tuple[str, str]]) -> None:
    """Raises ValueError for what a callback's request may not carry, or cannot."""
    seen: set[str] = set()
    for name, value in headers:
        _check_name(name)
        if name.lower() in seen:
            raise ValueError(f"must name each header once, whatever the case of its letters: {name} comes twice")
        seen.add(name.lower())
        reason = _refuse_value(value)
        if reason is not None:
            raise ValueError(f"must be such that can be sent: {name} {reason}")
    if len(seen) > MAX_HEADERS:
        raise ValueError(f"must be at most {MAX_HEADERS}")


def _check_name(name: str) -> None:
    if _TOKEN.fullmatch(name) is None or len(name) > MAX_HEADER_NAME:
        shown = name if len(name) <= 40 else f"{name[:40]}…"
        raise ValueError(
            f"must have names of letters, digits and signs such as -, at most {MAX_HEADER_NAME}: {shown!r} is none"
        )
    if name.lower() in _OURS:
        raise ValueError(f"must leave out {name}: Punctual sets it itself")
    if name.lower() in _FRAMING | _PROXY:
        raise ValueError(f"must leave out {name}: it belongs to the connection")


def _refuse_value(value: str) -> str | None:
    if len(value) > MAX_HEADER_VALUE:
        return f"has more than {MAX_HEADER_VALUE:,} characters"
    if _CONTROL.search(value):
        return "holds a line break or another control character"
    if not all(character <= "\xff" for character in value):
        return "holds a character outside Latin-1, which is all that a header can carry"
    return None


def headers_text(headers: Iterable[tuple[str, str]]) -> str:
    """Headers as they are stored, in their order."""
    return json.dumps([list(pair) for pair in headers], ensure_ascii=False, separators=(",", ":"))


@lru_cache(maxsize=4096)
def headers_of(stored: str) -> Headers:
    return tuple((name, value) for name, value in json.loads(stored))


def statuses_text(given: Iterable[int | str]) -> str:
    """Statuses and ranges of them (204, "200-299", "2xx") as they are stored. Raises ValueError."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in _merged(map(_range, given)))


@lru_cache(maxsize=1024)
def statuses_of(stored: str | None) -> Statuses:
    """(first, last) of each range; those of design.md, 200 to 299, for None."""
    return SUCCESS_STATUSES if stored is None else tuple(_range(part) for part in stored.split(","))


def statuses_shown(stored: str | None) -> list[int | str]:
    """As an answer shows them: numbers, and ranges as texts."""
    return [first if first == last else f"{first}-{last}" for first, last in statuses_of(stored)]


def _range(given: int | str) -> tuple[int, int]:
    found = _STATUSES.fullmatch(str(given))
    if found is None or not isinstance(given, int | str) or isinstance(given, bool):
        raise ValueError(f"must be statuses from {MIN_STATUS} to {MAX_STATUS}, such as 204, 200-299 or 2xx")
    if found[3]:
        return int(found[3]) * 100, int(found[3]) * 100 + 99
    first, last = int(found[1]), int(found[2] or found[1])
    if last < first:
        raise ValueError("must be ranges that begin with the smaller status")
    return first, last


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """In order, without overlaps: one spelling for one meaning."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found
