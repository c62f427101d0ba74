"""From a form's fields to a job request, by the API's own model and rules: what one takes the other takes."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from app.api.callback import job_request
from app.api.reading import validated
from app.api.schemas import MAX_ATTEMPTS
from app.api.schemas_jobs import JobSubmission
from app.api.strict_json import NotStrictJson, parse
from app.callback import DEFAULT_ATTEMPTS
from app.cron import TIMEZONE_NAMES
from app.current import settings
from app.errors import InvalidRequest
from app.instants import format_instant
from app.jobs.requests import JobRequest

__all__ = ["DEFAULT_ATTEMPTS", "MAX_ATTEMPTS", "UNITS", "FormRefused", "read"]

UNITS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400}
_NUMBER = re.compile(r"[0-9]{1,12}(?:[.,][0-9]{1,6})?", re.ASCII)
# The form's field for each of the model's.
_FIELDS = {"delay_seconds": "when", "run_at": "when"}
REQUIRED = {
    "type": "Say what kind of job it is, such as email.send.",
    "callback_url": "Give the address that is called.",
    "payload": "Give the payload: any JSON value, such as {} or null.",
}


class FormRefused(ValueError):
    """A form that makes no job: what is wrong, by field."""

    def __init__(self, errors: dict[str, str]) -> None:
        super().__init__(", ".join(errors))
        self.errors = errors


def read(fields: dict[str, str], client_id: int) -> JobRequest:
    """The request that the fields ask for. Raises FormRefused with everything that can be told at once."""
    errors = {name: message for name, message in REQUIRED.items() if not fields[name].strip()}
    values: dict[str, Any] = {"type": fields["type"].strip(), "callback_url": fields["callback_url"].strip()}
    for name, read_field in _READERS.items():
        if name in errors:
            continue
        try:
            values.update(read_field(fields))
        except ValueError as error:
            errors[name] = str(error)
    if errors:
        raise FormRefused(errors)
    try:
        body = _validated(values)
        return job_request(body, client_id, body.idempotency_key)
    except InvalidRequest as error:
        raise FormRefused(_told(error)) from None


def _payload(fields: dict[str, str]) -> dict[str, Any]:
    """Browsers send line ends of text areas as CRLF; between JSON's tokens both are blanks."""
    text = fields["payload"].replace("\r\n", "\n").strip(" \t\n\r")
    try:
        # By itself first, so that line and column are the ones in the field; then as a member, as programs send it.
        parse(text.encode())
        return {"payload": parse(b'{"payload":%b}' % text.encode(), (("payload",),))["payload"]}
    except NotStrictJson as error:
        raise ValueError(str(error).replace("The body", "The payload", 1)) from None


def _time(fields: dict[str, str]) -> dict[str, Any]:
    match fields["when"]:
        case "delay":
            if fields["unit"] not in UNITS or _NUMBER.fullmatch(fields["delay"].strip()) is None:
                raise ValueError("Give a number, such as 5.")
            return {"delay_seconds": float(fields["delay"].strip().replace(",", ".")) * UNITS[fields["unit"]]}
        case "at":
            return {"run_at": _instant(fields["run_at"].strip(), fields["zone"])}
        case _:
            return {}


def _instant(text: str, zone_name: str) -> str:
    """The instant of a local time as the API takes it. Of a time that comes twice, the first."""
    zone = ZoneInfo(zone_name if zone_name in TIMEZONE_NAMES else "UTC")
    try:
        local = datetime.fromisoformat(text).replace(tzinfo=zone)
        instant = format_instant(local)
    except (ValueError, OverflowError):
        raise ValueError("Give a day and a time, such as 2026-12-01 10:00.") from None
    if datetime.fromisoformat(instant).astimezone(zone).replace(tzinfo=None) != local.replace(tzinfo=None):
        raise ValueError(f"The clocks of {zone_name} skip this time: take one an hour later or earlier.")
    return instant


def _max_attempts(fields: dict[str, str]) -> dict[str, Any]:
    text = fields["max_attempts"].strip() or str(DEFAULT_ATTEMPTS)
    if not (text.isascii() and text.isdigit() and len(text) < 5):
        raise ValueError(f"Give a whole number from 1 to {MAX_ATTEMPTS}.")
    return {"max_attempts": int(text)}


def _key(fields: dict[str, str]) -> dict[str, Any]:
    key = fields["idempotency_key"].strip()
    return {"idempotency_key": key} if key else {}


_READERS = {"payload": _payload, "when": _time, "max_attempts": _max_attempts, "idempotency_key": _key}


def _validated(values: dict[str, Any]) -> JobSubmission:
    _check_size(values)
    return validated(JobSubmission, values)


def _told(error: InvalidRequest) -> dict[str, str]:
    """What was refused, by the form's fields, as sentences."""
    told: dict[str, str] = {}
    for row in error.details or ():
        told.setdefault(_FIELDS.get(row["field"], row["field"]), _sentence(row["message"]))
    return told


def _check_size(values: dict[str, Any]) -> None:
    most = settings().max_body_bytes
    rest = {name: value for name, value in values.items() if name != "payload"}
    if len(json.dumps(rest, ensure_ascii=False).encode()) + len(values["payload"].text.encode()) > most:
        raise FormRefused({"payload": f"The job is larger than {most:,} bytes, the most that is taken."})


def _sentence(message: str) -> str:
    words = f"It {message}" if message.startswith(("must ", "is ", "has ", "lies ", "names ")) else message
    return f"{words[:1].upper()}{words[1:]}".rstrip(".") + "."
