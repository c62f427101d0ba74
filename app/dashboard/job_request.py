"""The request of an attempt as text: its lines, and the same as a curl command. Pure."""

from __future__ import annotations

import shlex
import string
from urllib.parse import quote
from uuid import UUID

from app.attempts import USER_AGENT_PRODUCT
from app.version import VERSION

# The signature is made at sending, from a secret that no page shows.
SIGNED_AT_SENDING = ("webhook-timestamp", "webhook-signature")
MOST_IN_COMMAND = 32_768
PAYLOAD_FILE = "payload.json"

_PRINTABLE = string.ascii_letters + string.digits + string.punctuation + " "


def headers(job_id: UUID, job_type: str, attempt: int, max_attempts: int) -> list[tuple[str, str]]:
    """The headers an attempt is sent with, but for what is signed at sending."""
    return [
        ("Content-Type", "application/json"),
        ("User-Agent", f"{USER_AGENT_PRODUCT}/{VERSION}"),
        ("Idempotency-Key", str(job_id)),
        ("webhook-id", str(job_id)),
        ("X-Job-ID", str(job_id)),
        ("X-Job-Type", quote(job_type, safe=_PRINTABLE)),
        ("X-Job-Attempt", str(attempt)),
        ("X-Job-Max-Attempts", str(max_attempts)),
    ]


def lines(url: str, fields: list[tuple[str, str]], payload_bytes: int) -> str:
    """The head of the request as it goes over the wire."""
    authority, slash, path = url.partition("://")[2].partition("/")
    signed = [(name, "(made when it is sent)") for name in SIGNED_AT_SENDING]
    shown = [("Host", authority), *fields, *signed, ("Content-Length", str(payload_bytes))]
    return "\n".join([f"POST {slash or '/'}{path} HTTP/1.1", *(f"{name}: {value}" for name, value in shown)])


def curl(url: str, fields: list[tuple[str, str]], payload: str) -> str:
    """A command for a POSIX shell that sends the same request, unsigned.

    A payload over MOST_IN_COMMAND characters is read from PAYLOAD_FILE, since a command's length is limited.
    """
    is_short = len(payload) <= MOST_IN_COMMAND
    body = f"--data-raw {shlex.quote(payload)}" if is_short else f"--data-binary @{PAYLOAD_FILE}"
    options = [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in fields]
    return " \\\n  ".join([f"curl -sS -i -X POST {shlex.quote(url)}", *options, body])
