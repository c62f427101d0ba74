"""The form of a cron entry: its fields, filled from an entry, and read by the API's own model and rules."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from wtforms import HiddenField, RadioField, SelectChoice, SelectField, StringField, TextAreaField

from app.api.callback import job_template
from app.api.reading import validated
from app.api.schemas_cron import CronJobDefinition
from app.cron import CronError
from app.cron.zones import load_zone
from app.cron_entries import Definition, Entry, read_schedule
from app.cron_entries.definition import check_bounds
from app.dashboard import callback_fields, callback_form
from app.dashboard.callback_form import CallbackForm
from app.dashboard.cron_words import CATCH_UP, OVERLAP
from app.dashboard.field_texts import lines, whole
from app.dashboard.form_errors import FormRefused, told
from app.errors import InvalidRequest
from app.instants import format_instant

UNITS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400}
NO_SCHEDULE = "Say when, such as 30 2 * * * for every day at 02:30."


def _choices(words: dict[str, tuple[str, str]]) -> list[SelectChoice]:
    return [SelectChoice(value, label) for value, (label, _) in words.items()]


class CronForm(CallbackForm):
    """Every rule is the API's; those of the call are in app.dashboard.callback_fields."""

    client = SelectField("Client", validate_choice=False, description="Whose entry it is: its secret signs the jobs.")
    name = StringField("Name", description="Optional. One entry of a client has it.")
    description = TextAreaField("Description", description="Optional: what it is for, and whom to ask.")
    cron_expression = StringField(
        "Schedule",
        description="Minute, hour, day of month, month, day of week; or @hourly, @daily, @weekly, @monthly, @yearly.",
    )
    timezone = StringField("Time zone", default="UTC", description="An IANA name, such as Europe/Berlin.")
    starts_at = StringField("From", description="Optional, in the entry's time zone.")
    ends_at = StringField("Until", description="Optional, in the entry's time zone.")
    jitter_seconds = StringField(
        "Spread over",
        default="0",
        description="Seconds. The entry runs later by an offset below this, always the same.",
    )
    # The entry that this one is a copy of: what its form cannot show is taken from there.
    source = HiddenField()
    overlap = RadioField(
        "While the last job is running", choices=_choices(OVERLAP), default="skip", validate_choice=False
    )
    catch_up = RadioField("When times were missed", choices=_choices(CATCH_UP), default="one", validate_choice=False)
    window = StringField("Catch up over", default="1")
    window_unit = SelectField(
        "Unit", choices=[SelectChoice(unit) for unit in UNITS], default="hours", validate_choice=False
    )


def fill(form: CronForm, entry: Entry) -> None:
    """Puts an entry's values into an empty form."""
    callback_form.fill(form, entry, entry.job_type)
    for name in ("name", "description", "timezone", "overlap", "catch_up"):
        form[name].data = getattr(entry, name) or ""
    form.client.data, form.cron_expression.data = str(entry.client_id), entry.expression
    form.jitter_seconds.data = str(entry.jitter_seconds)
    form.starts_at.data = wall_time(entry.starts_at, entry.timezone)
    form.ends_at.data = wall_time(entry.ends_at, entry.timezone)
    window = entry.catch_up_window_seconds
    unit = next(unit for unit in reversed(UNITS) if window % UNITS[unit] == 0 and (window or unit == "seconds"))
    form.window.data, form.window_unit.data = str(window // UNITS[unit]), unit


def read(form: CronForm, before: Entry | None = None) -> Definition:
    """What the form asks for. Raises FormRefused with everything that can be told at once.

    What was left as `before` showed it stays to the last bit: a text area cannot hold every payload, nor a field every instant.
    """
    fields = form.texts()
    template, errors = callback_fields.read(fields, before, None if before is None else before.job_type)
    values: dict[str, Any] = {"overlap": fields["overlap"].strip(), "catch_up": fields["catch_up"].strip()}
    values |= {"timezone": fields["timezone"].strip() or "UTC", "cron_expression": fields["cron_expression"].strip()}
    if not values["cron_expression"]:
        errors["cron_expression"] = NO_SCHEDULE
    values |= {name: text for name in ("name", "description") if (text := lines(fields[name]).strip())}
    for name, reader in (
        ("jitter_seconds", lambda: whole(fields["jitter_seconds"] or "0")),
        ("window", lambda: whole(fields["window"]) * UNITS.get(fields["window_unit"], 1)),
        ("starts_at", lambda: _instant(fields, "starts_at", before)),
        ("ends_at", lambda: _instant(fields, "ends_at", before)),
    ):
        try:
            found = reader()
        except ValueError as error:
            errors[name] = str(error)
        else:
            if found is not None:
                values["catch_up_window_seconds" if name == "window" else name] = found
    if errors:
        raise FormRefused(errors)
    callback_fields.check_size({**values, **template})
    return _definition({**values, "job_template": template})


def read_bounds(fields: dict[str, str], before: Entry | None = None) -> tuple[datetime | None, datetime | None, int]:
    """starts_at, ends_at and jitter_seconds, for a preview. Raises FormRefused."""
    found: dict[str, datetime | None] = {}
    for name in ("starts_at", "ends_at"):
        try:
            text = _instant(fields, name, before)
        except ValueError as error:
            raise FormRefused({name: str(error)}) from None
        found[name] = None if text is None else datetime.fromisoformat(text)
    try:
        return found["starts_at"], found["ends_at"], whole(fields["jitter_seconds"].strip() or "0")
    except ValueError as error:
        raise FormRefused({"jitter_seconds": str(error)}) from None


def wall_time(instant: datetime | None, zone_name: str) -> str:
    """For a field of the kind datetime-local: what a clock of the zone shows, to the second."""
    if instant is None:
        return ""
    return instant.astimezone(_zone(zone_name)).replace(tzinfo=None, microsecond=0).isoformat()


def _definition(values: dict[str, Any]) -> Definition:
    try:
        body = validated(CronJobDefinition, values)
        read_schedule(body.cron_expression, body.timezone)
        check_bounds(body.starts_at, body.ends_at)
        template = job_template(body.job_template)
    except InvalidRequest as error:
        raise FormRefused(told(error, "cron_expression")) from None
    given = body.model_dump(exclude={"cron_expression", "job_template"})
    return Definition(expression=body.cron_expression, template=template, **given)


def _instant(fields: dict[str, str], name: str, before: Entry | None) -> str | None:
    """The instant of a local time as the API takes it. Of a time that comes twice, the first."""
    text, zone_name = fields[name].strip(), fields["timezone"].strip() or "UTC"
    if not text:
        return None
    kept: datetime | None = None if before is None else getattr(before, name)
    if (
        kept is not None
        and before is not None
        and text == wall_time(kept, before.timezone)
        and zone_name == before.timezone
    ):
        return format_instant(kept)
    return local_instant(text, zone_name)


def local_instant(text: str, zone_name: str) -> str:
    """The same for any text and zone. Raises ValueError, with a sentence for a person."""
    try:
        local = datetime.fromisoformat(text).replace(tzinfo=_zone(zone_name))
        instant = format_instant(local)
    except (ValueError, OverflowError):
        raise ValueError("Give a day and a time, such as 2026-12-01 10:00.") from None
    if datetime.fromisoformat(instant).astimezone(local.tzinfo).replace(tzinfo=None) != local.replace(tzinfo=None):
        raise ValueError(f"The clocks of {zone_name} skip this time: take one an hour later or earlier.")
    return instant


def _zone(name: str) -> ZoneInfo:
    try:
        return load_zone(name)
    except CronError:
        return load_zone("UTC")
