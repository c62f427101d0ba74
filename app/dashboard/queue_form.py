"""The form of a queue's limits and defaults: filled from a queue, and read by the API's own model and rules."""

from __future__ import annotations

from typing import Any

from flask_wtf import FlaskForm
from wtforms import SelectChoice, SelectField, StringField

from app.api.reading import validated
from app.api.schemas_queues import QueueSettings
from app.dashboard import spans
from app.dashboard.field_texts import whole
from app.dashboard.form_errors import FormRefused, told
from app.errors import InvalidRequest
from app.queues.changes import Settings
from app.queues.reading import QueueRow

# The fields of a rate, and what the API calls them.
RATE = {"rate_limit": "limit", "rate_period_seconds": "period_seconds"}
BREAKERS: dict[str, bool | None] = {"": None, "on": True, "off": False}
BOTH = "Give both, how many and within which time, or neither."


class QueueForm(FlaskForm):  # type: ignore[misc]
    """An empty field is no limit, or no default."""

    concurrency = StringField("Calls at once", description="At most so many are under way. Empty: no limit.")
    rate_limit = StringField(
        "Calls begun", description="At most so many within any span of the time beside. Empty: no limit."
    )
    rate_period_seconds = StringField("Within", description="Such as 1 s, 1 min or 1 h; 7 d at most.")
    default_max_attempts = StringField("Attempts at most", description="Of jobs that do not say. Empty: 5.")
    default_timeout_seconds = StringField("Time-out", description="Of jobs that do not say. Empty: 10 s.")
    circuit_breaker = SelectField(
        "Hold back calls to a host that keeps failing",
        choices=[SelectChoice("", "As configured"), SelectChoice("on", "On"), SelectChoice("off", "Off")],
        default="",
    )


def fill(form: QueueForm, queue: QueueRow) -> None:
    """Puts a queue's settings into an empty form."""
    for name in ("concurrency", "rate_limit", "default_max_attempts"):
        value = getattr(queue, name)
        form[name].data = "" if value is None else str(value)
    form.circuit_breaker.data = next(word for word, value in BREAKERS.items() if value == queue.circuit_breaker)
    for name in ("rate_period_seconds", "default_timeout_seconds"):
        value = getattr(queue, name)
        form[name].data = "" if value is None else spans.shown(value)


def read(form: QueueForm) -> Settings:
    """All settings. Raises FormRefused with everything that can be told at once."""
    values: dict[str, Any] = {"circuit_breaker": BREAKERS[form.circuit_breaker.data or ""]}
    errors: dict[str, str] = {}
    for name, reader in (
        ("concurrency", whole),
        ("rate_limit", whole),
        ("rate_period_seconds", spans.read),
        ("default_max_attempts", whole),
        ("default_timeout_seconds", spans.read),
    ):
        text = (form[name].data or "").strip()
        try:
            values[name] = reader(text) if text else None
        except ValueError as error:
            errors[name] = str(error)
    if not errors and (values["rate_limit"] is None) != (values["rate_period_seconds"] is None):
        errors["rate_limit" if values["rate_limit"] is None else "rate_period_seconds"] = BOTH
    if errors:
        raise FormRefused(errors)
    rate = {its_name: values.pop(name) for name, its_name in RATE.items()}
    values["rate"] = rate if rate["limit"] is not None else None
    try:
        return validated(QueueSettings, values).settings()
    except InvalidRequest as error:
        fields = {f"rate.{its_name}": name for name, its_name in RATE.items()}
        details = [{**row, "field": fields.get(row["field"], row["field"])} for row in error.details or []]
        raise FormRefused(told(InvalidRequest(error.message, details=details), "concurrency")) from None
