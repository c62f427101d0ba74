"""How often a call is tried and how long it waits between, from the fields of app.dashboard.callback_form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from app.api.reading import validated
from app.api.schemas import MAX_ATTEMPTS
from app.api.schemas_callback import RetryFields
from app.callback import DEFAULT_ATTEMPTS
from app.dashboard import spans
from app.dashboard.callback_form import Stored
from app.dashboard.field_texts import Fields, Reader, read_each, whole
from app.dashboard.form_errors import FormRefused, told
from app.errors import InvalidRequest
from app.retry import RetryPolicy
from app.retry_policy import policy_of

# The fields of a policy that mean something for each backoff.
POLICY_FIELDS = {
    "exponential": ("base_seconds", "factor", "max_seconds"),
    "linear": ("base_seconds", "max_seconds"),
    "fixed": ("base_seconds",),
    "list": ("delays",),
}


def read_policy(fields: Fields) -> tuple[RetryPolicy, int]:
    """The retry policy and the number of attempts, to plan with. Raises FormRefused."""
    values, errors = read_each(fields, None, {"max_attempts": read_max_attempts})
    if not errors and not 1 <= values["max_attempts"] <= MAX_ATTEMPTS:
        errors["max_attempts"] = f"Attempts are a whole number from 1 to {MAX_ATTEMPTS}."
    retry, wrong = read_each(fields, None, _POLICY)
    if errors or wrong:
        raise FormRefused({**errors, **wrong})
    try:
        return validated(RetryFields, retry).policy(), values["max_attempts"]
    except InvalidRequest as error:
        raise FormRefused(told(error, "backoff")) from None


def read_max_attempts(fields: Fields, _before: Stored | None) -> dict[str, Any]:
    try:
        return {"max_attempts": whole(fields["max_attempts"] or str(DEFAULT_ATTEMPTS))}
    except ValueError:
        raise ValueError(f"Give a whole number from 1 to {MAX_ATTEMPTS}.") from None


def read_retry(fields: Fields, before: Stored | None) -> dict[str, Any]:
    """The policy, as a member of a request."""
    retry, errors = read_each(fields, before, _POLICY)
    if errors:
        raise FormRefused(errors)
    return {"retry": retry}


def _backoff(fields: Fields, before: Stored | None) -> dict[str, Any]:
    """With the fields that mean something for it; the others stay as they were."""
    backoff = fields["backoff"]
    values: dict[str, Any] = {"backoff": backoff, "jitter": fields["jitter"]}
    if before is not None and (old := policy_of(before.retry)).backoff == backoff:
        values |= {name: asdict(old)[name] for name in ("base_seconds", "factor", "max_seconds")}
    errors = {}
    for name in POLICY_FIELDS.get(backoff, ()):
        values.pop(name, None)
        if not fields[name].strip() and name != "delays":
            continue
        reader: Callable[[str], Any] = {"delays": spans.read_list, "factor": spans.read_number}.get(name, spans.read)
        try:
            values[name] = reader(fields[name])
        except ValueError as error:
            errors[name] = str(error)
    if errors:
        raise FormRefused(errors)
    return values


def _give_up(fields: Fields, _before: Stored | None) -> dict[str, Any]:
    text = fields["give_up_after_seconds"].strip()
    return {"give_up_after_seconds": spans.read(text)} if text else {}


_POLICY: dict[str, Reader] = {"backoff": _backoff, "give_up_after_seconds": _give_up}
