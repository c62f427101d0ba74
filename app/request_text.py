"""The request of an attempt as text: its headers, its lines, and the same as a curl command. Pure."""

from __future__ import annotations

import re
import shlex
import string
from collections.abc import Iterable
from urllib.parse import quote
from uuid import UUID

from app.attempts import USER_AGENT_PRODUCT
from app.callback import JSON_TYPE, Headers
from app.version import VERSION

# The signature is made at sending, from a secret that no page shows.
SIGNED_AT_SENDING = ("webhook-timestamp", "webhook-signature")
MADE_AT_SENDING = "<made when it is sent>"
LEFT_OUT = "<left out>"
MOST_IN_COMMAND = 32_768
PAYLOAD_FILE = "payload.json"

_PRINTABLE = string.ascii_letters + string.digits + string.punctuation + " "
_SECRET_NAME = re.compile(r"authorization|cookie|token|secret|key|password|signature|credential", re.IGNORECASE)
_OPEN_NAMES = ("idempotency-key",)

Fields = list[tuple[str, str]]


def headers(
    job_id: UUID,
    job_type: str,
    attempt: int,
    max_attempts: int,
    own: Headers = (),
    content_type: str | None = JSON_TYPE,
) -> Fields:
    """The headers an attempt is sent with, but for what is signed at sending; `own` are the job's. No body: no content type."""
    return [
        *([] if content_type is None else [("Content-Type", content_type)]),
        ("User-Agent", f"{USER_AGENT_PRODUCT}/{VERSION}"),
        ("Idempotency-Key", str(job_id)),
        ("webhook-id", str(job_id)),
        ("X-Job-ID", str(job_id)),
        ("X-Job-Type", encoded(job_type)),
        ("X-Job-Attempt", str(attempt)),
        ("X-Job-Max-Attempts", str(max_attempts)),
        *own,
    ]


def encoded(job_type: str) -> str:
    """Percent-encoded (as UTF-8) where not printable ASCII, and a blank at an end, which HTTP would drop."""
    text = quote(job_type, safe=_PRINTABLE)
    start, end = len(text) - len(text.lstrip(" ")), len(text.rstrip(" "))
    return "%20" * start + text[start:end] + "%20" * (len(text) - max(start, end))


def signed(fields: Fields) -> Fields:
    """With the names of what is made at sending."""
    return [*fields, *((name, MADE_AT_SENDING) for name in SIGNED_AT_SENDING)]


def lines(url: str, fields: Fields, body_bytes: int | None, method: str = "POST") -> str:
    """The head of the request as it goes over the wire; `body_bytes` None: there is no body."""
    authority, slash, path = url.partition("://")[2].partition("/")
    length = [] if body_bytes is None else [("Content-Length", str(body_bytes))]
    shown = [("Host", authority), *signed(fields), *length]
    return "\n".join([f"{method} {slash or '/'}{path} HTTP/1.1", *(f"{name}: {value}" for name, value in shown)])


def without_secrets(fields: Iterable[tuple[str, str]]) -> Fields:
    """The values of headers that may be secrets, to judge by their names, left out."""
    return [(name, LEFT_OUT if may_be_secret(name) else value) for name, value in fields]


def may_be_secret(name: str) -> bool:
    return name.lower() not in _OPEN_NAMES and _SECRET_NAME.search(name) is not None


def curl(url: str, fields: Fields, body: str | None, method: str = "POST") -> str:
    """A command for a POSIX shell that sends the same request, unsigned and without what may be secret.

    A body over MOST_IN_COMMAND characters is read from PAYLOAD_FILE, since a command's length is limited.
    """
    options = [f"-H {shlex.quote(_header(name, value))}" for name, value in without_secrets(fields)]
    if body is not None:
        is_short = len(body) <= MOST_IN_COMMAND
        options.append(f"--data-raw {shlex.quote(body)}" if is_short else f"--data-binary @{PAYLOAD_FILE}")
    # The URL as it stands: no patterns in it, and no dots taken out of its path.
    return " \\\n  ".join([f"curl -sS -i --globoff --path-as-is -X {method} {shlex.quote(url)}", *options])


def _header(name: str, value: str) -> str:
    """In curl's form, in which `Name:` would take a header away, and `Name;` sends it empty."""
    return f"{name}: {value}" if value.strip(" \t") else f"{name};"
