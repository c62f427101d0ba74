"""From the fields of app.dashboard.callback_form to what the API's models take: what one takes the other takes.

What was left as `before` showed it stays to the last bit: a text area cannot hold every payload, nor a line every header.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from app.api.reading import validated
from app.api.schemas_trial import TrialFields
from app.api.strict_json import NotStrictJson, parse
from app.callback import BODYLESS, MAX_TIMEOUT_SECONDS, headers_of, statuses_text
from app.current import settings
from app.dashboard import header_lines, spans
from app.dashboard.callback_form import DEFAULT_STATUSES, Stored, body_kind
from app.dashboard.field_texts import Fields, Reader, kept, lines, read_each
from app.dashboard.form_errors import FormRefused, told
from app.dashboard.placement_fields import read_priority, read_queue, read_tags
from app.dashboard.retry_fields import read_max_attempts, read_retry
from app.errors import InvalidRequest
from app.trials import MAX_TRIAL_SECONDS

JSON_BLANKS = " \t\n\r"
NO_BODY = f"Choose JSON or text: only {' and '.join(BODYLESS)} do without a body."
REQUIRED = {
    "type": "Say what kind of job it is, such as email.send.",
    "callback_url": "Give the address that is called.",
    "payload": "Give the payload: any JSON value, such as {} or null.",
}


def read(fields: Fields, before: Stored | None, job_type: str | None = None) -> tuple[dict[str, Any], dict[str, str]]:
    """The members of a request that asks for the call, and what is wrong, by field. `job_type` is that of `before`."""
    values, errors = read_each(fields, before, {**_REQUEST, **_REST})
    values["type"] = kept(fields["type"], job_type)
    if not values["type"]:
        errors["type"] = REQUIRED["type"]
    return values, errors


def read_trial(fields: Fields, before: Stored | None) -> TrialFields:
    """The request alone, for a test of it, which waits MAX_TRIAL_SECONDS at most. Raises FormRefused."""
    values, errors = read_each(fields, before, _REQUEST)
    if errors:
        raise FormRefused(errors)
    check_size(values)
    if MAX_TRIAL_SECONDS < values.get("timeout_seconds", 0) <= MAX_TIMEOUT_SECONDS:
        values["timeout_seconds"] = MAX_TRIAL_SECONDS
    try:
        return validated(TrialFields, values)
    except InvalidRequest as error:
        raise FormRefused(told(error, "callback_url")) from None


def check_size(values: Mapping[str, Any]) -> None:
    """Programs may send no more either. Raises FormRefused."""
    most = settings().max_body_bytes
    name = "body" if "body" in values else "payload"
    rest = {key: value for key, value in values.items() if key != "payload"}
    payload = values["payload"].text.encode() if "payload" in values else b""
    if len(json.dumps(rest, ensure_ascii=False).encode(errors="replace")) + len(payload) > most:
        raise FormRefused({name: f"The job is larger than {most:,} bytes, the most that is taken."})


def _callback_url(fields: Fields, before: Stored | None) -> dict[str, Any]:
    url = kept(fields["callback_url"], None if before is None else before.callback_url)
    if not url:
        raise ValueError(REQUIRED["callback_url"])
    return {"callback_url": url}


def _headers(fields: Fields, before: Stored | None) -> dict[str, Any]:
    """What may be secret stays with the host it was given for: nobody gets to see it by another address."""
    text = lines(fields["headers"])
    if before is None:
        return {"headers": dict(header_lines.read(text))}
    is_same_host = _host(fields["callback_url"]) == _host(before.callback_url)
    return {"headers": dict(header_lines.read(text, headers_of(before.headers), is_same_host))}


def _host(url: str) -> str:
    """Scheme, host and port, as far as they can be told without judging the address."""
    scheme, _, rest = url.strip().partition("://")
    return f"{scheme}://{re.split(r'[/?#]', rest)[0]}".lower()


def _body(fields: Fields, before: Stored | None) -> dict[str, Any]:
    """Browsers send line ends of text areas as CRLF; between JSON's tokens both are blanks."""
    kind = fields["body_kind"]
    stored = before.payload if before is not None and body_kind(before) == kind else None
    if kind == "none":
        if fields["method"] not in BODYLESS:
            raise FormRefused({"body_kind": NO_BODY})
        return {}
    if kind == "text":
        text = lines(fields["body"])
        values = {"body": stored if stored is not None and text == lines(stored) else text}
        content_type = kept(fields["content_type"], None if before is None else before.content_type)
        return {**values, "content_type": content_type} if content_type else values
    return {"payload": _payload(fields["payload"], stored)}


def _payload(text: str, stored: str | None) -> Any:
    text = lines(text).strip(JSON_BLANKS)
    if not text:
        raise FormRefused({"payload": REQUIRED["payload"]})
    if stored is not None and text == lines(stored).strip(JSON_BLANKS):
        text = stored
    try:
        # By itself first, so that line and column are the ones in the field; then as a member, as programs send it.
        parse(text.encode())
        return parse(b'{"payload":%b}' % text.encode(), (("payload",),))["payload"]
    except (NotStrictJson, UnicodeEncodeError) as error:
        raise FormRefused({"payload": str(error).replace("The body", "The payload", 1)}) from None


def _timeout(fields: Fields, _before: Stored | None) -> dict[str, Any]:
    text = fields["timeout_seconds"].strip()
    return {"timeout_seconds": spans.read(text)} if text else {}


def _statuses(fields: Fields, before: Stored | None) -> dict[str, Any]:
    """Left out where it says what holds anyway, unless it was said before."""
    text = re.sub(r"\s*[-–]\s*", "-", fields["success_statuses"].strip().lower())
    given = [int(part) if re.fullmatch("[0-9]{1,9}", part, re.ASCII) else part for part in re.split(r"[\s,;]+", text)]
    is_said = before is not None and before.success_statuses is not None
    if not text or (text == DEFAULT_STATUSES and not is_said):
        return {}
    try:
        statuses_text(given)
    except ValueError as error:
        raise ValueError(f"They {error}.") from None
    return {"success_statuses": given}


def _told_urls(fields: Fields, before: Stored | None) -> dict[str, Any]:
    names = ("on_success_url", "on_failure_url")
    found = {name: kept(fields[name], None if before is None else getattr(before, name)) for name in names}
    return {name: url for name, url in found.items() if url}


_REQUEST: dict[str, Reader] = {
    "callback_url": _callback_url,
    "method": lambda fields, _before: {"method": fields["method"]},
    "headers": _headers,
    "body": _body,
    "timeout_seconds": _timeout,
    "success_statuses": _statuses,
}
_REST: dict[str, Reader] = {
    "max_attempts": read_max_attempts,
    "retry": read_retry,
    "on_success_url": _told_urls,
    "queue": read_queue,
    "priority": read_priority,
    "tags": read_tags,
}
