"""From a form's fields to a job request, by the API's own model and rules: what one takes the other takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from app.api.callback import job_request
from app.api.reading import validated
from app.api.schemas_jobs import MAX_DELAY_SECONDS, JobSubmission
from app.cron import TIMEZONE_NAMES
from app.dashboard import callback_fields
from app.dashboard.form_errors import FormRefused, told
from app.errors import InvalidRequest
from app.instants import format_instant
from app.jobs.queries import JobDetail
from app.jobs.requests import JobRequest

__all__ = ["MAX_DELAY_SECONDS", "UNITS", "instant", "read", "read_time"]

UNITS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400}
_NUMBER = re.compile(r"[0-9]{1,12}(?:[.,][0-9]{1,6})?", re.ASCII)


def read(fields: Mapping[str, str], client_id: int, before: JobDetail | None = None) -> JobRequest:
    """The request that the fields ask for. Raises FormRefused with everything that can be told at once.

    `before` is the job that this one is a copy of.
    """
    values, errors = callback_fields.read(fields, before, None if before is None else before.type)
    try:
        values |= read_time(fields)
    except ValueError as error:
        errors["when"] = str(error)
    try:
        if expires_at := fields["expires_at"].strip():
            values["expires_at"] = instant(expires_at, fields["zone"])
    except ValueError as error:
        errors["expires_at"] = str(error)
    if errors:
        raise FormRefused(errors)
    if key := fields["idempotency_key"].strip():
        values["idempotency_key"] = key
    callback_fields.check_size(values)
    try:
        asked = validated(JobSubmission, values)
        return job_request(asked, client_id, asked.idempotency_key)
    except InvalidRequest as error:
        raise FormRefused(told(error, "type")) from None


def read_time(fields: Mapping[str, str]) -> dict[str, Any]:
    """`run_at`, `delay_seconds` or neither. Raises ValueError with a sentence for a person."""
    match fields["when"]:
        case "delay":
            if fields["unit"] not in UNITS or _NUMBER.fullmatch(fields["delay"].strip()) is None:
                raise ValueError("Give a number, such as 5.")
            return {"delay_seconds": float(fields["delay"].strip().replace(",", ".")) * UNITS[fields["unit"]]}
        case "at":
            return {"run_at": instant(fields["run_at"].strip(), fields["zone"])}
        case _:
            return {}


def instant(text: str, zone_name: str) -> str:
    """The instant of a local time as the API takes it. Of a time that comes twice, the first. Raises ValueError."""
    zone = ZoneInfo(zone_name if zone_name in TIMEZONE_NAMES else "UTC")
    try:
        local = datetime.fromisoformat(text).replace(tzinfo=zone)
        found = format_instant(local)
    except (ValueError, OverflowError):
        raise ValueError("Give a day and a time, such as 2026-12-01 10:00.") from None
    if datetime.fromisoformat(found).astimezone(zone).replace(tzinfo=None) != local.replace(tzinfo=None):
        raise ValueError(f"The clocks of {zone_name} skip this time: take one an hour later or earlier.")
    return found
