"""Submitting a job: the form, filled from another job when it is a duplicate, with the planned delays beside it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from flask import flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_wtf import FlaskForm
from wtforms import HiddenField, RadioField, SelectChoice, SelectField, StringField, TextAreaField

from app import audit, jobs
from app.current import punctual, settings
from app.dashboard import choices, formats, submission, viewer
from app.dashboard.job_actions import by_me
from app.dashboard.roles import requires
from app.dashboard.submission import DEFAULT_ATTEMPTS, MAX_ATTEMPTS, UNITS, FormRefused
from app.database import autocommit
from app.jobs import queries
from app.jobs.requests import JobRequest, Submitted
from app.metrics import count_submitted
from app.retry import DEFAULT_POLICY, planned

FIELDS = (
    "type",
    "callback_url",
    "payload",
    "when",
    "delay",
    "unit",
    "run_at",
    "zone",
    "max_attempts",
    "idempotency_key",
)
# A form may repeat the payload in a wider encoding, and holds more than the payload.
FORM_SIZE_FACTOR = 4


class JobForm(FlaskForm):  # type: ignore[misc]
    """Every rule is in app.dashboard.submission, which has them from the API."""

    client = SelectField(
        "Client", validate_choice=False, description="Whose job it is: its keys see it, its secret signs it."
    )
    type = StringField("Type", description="What kind of job it is, for the receiver and for people.")
    callback_url = StringField("Callback URL", description="Where it is delivered: a public http or https address.")
    payload = TextAreaField(
        "Payload", default="{}", description="Any JSON value; it is sent exactly as it stands here."
    )
    when = RadioField(
        "When",
        choices=[SelectChoice("now", "Now"), SelectChoice("delay", "In"), SelectChoice("at", "At")],
        default="now",
        validate_choice=False,
    )
    delay = StringField("How long from now", default="5")
    unit = SelectField("Unit", choices=[SelectChoice(unit) for unit in UNITS], default="minutes", validate_choice=False)
    run_at = StringField("Day and time")
    zone = HiddenField()
    max_attempts = StringField("Attempts at most", default=str(DEFAULT_ATTEMPTS))
    idempotency_key = StringField(
        "Idempotency key", description="Optional: the same key never makes a second job of this client."
    )


def make_room(endpoint: str | None, _values: dict[str, Any] | None) -> None:
    """Lets the form be larger than a program's request may be, before anything reads it."""
    if endpoint == "dashboard.jobs.new":
        request.max_content_length = request.max_form_memory_size = FORM_SIZE_FACTOR * settings().max_body_bytes


@requires("operator")
def new() -> ResponseReturnValue:
    form = JobForm()
    clients = choices.clients()
    form.client.choices = [SelectChoice(str(client_id), formats.shortened(name)) for client_id, name in clients.items()]
    if request.method == "GET":
        return _page(form, _fill(form))
    if not form.validate_on_submit():
        return _page(form, None, 422)
    if form.client.data not in map(str, clients):
        form.client.errors = ["Choose whose job it is."]
        return _page(form, None, 422)
    try:
        wanted = submission.read({name: form[name].data or "" for name in FIELDS}, int(form.client.data))
    except FormRefused as refused:
        return _refused(form, refused.errors)
    submitted = _submit(wanted)
    if submitted.outcome == "conflict":
        return _refused(form, {"idempotency_key": "This key was used for another job: take another, or leave it out."})
    if submitted.outcome == "replayed":
        flash("This key was used before, for the same job: here it is. No second one was made.", "info")
    else:
        flash("The job is accepted.", "success")
    return redirect(url_for("dashboard.jobs.show", job_id=submitted.job_id))


@requires("viewer")
def planned_delays() -> str:
    """The planned delays for a number of attempts, as the form shows them while it is filled in."""
    return render_template("jobs/_planned.html", waits=_waits(request.args.get("max_attempts", "")))


def _submit(wanted: JobRequest) -> Submitted:
    submitted = jobs.submit(punctual(), wanted)
    if submitted.outcome == "created":
        count_submitted()
        by, job_id = by_me(), str(submitted.job_id)
        with autocommit(punctual().engine) as conn:
            detail = {"type": wanted.type}
            audit.record(conn, by.kind, by.name, wanted.client_id, "job.submit", "job", job_id, detail, by.address)
    return submitted


def _fill(form: JobForm) -> UUID | None:
    """Fills an empty form: from the job that the address names, and its id, or with the defaults."""
    form.zone.data = viewer.zone_name()
    try:
        source = UUID(request.args.get("from", ""))
    except ValueError:
        return None
    job = queries.get_job(punctual().engine, None, source)
    if job is None:
        return None
    form.client.data = str(job.client_id)
    form.type.data, form.callback_url.data, form.payload.data = job.type, job.callback_url, job.payload
    form.max_attempts.data = str(job.max_attempts)
    return source


def _refused(form: JobForm, errors: dict[str, str]) -> ResponseReturnValue:
    for name, message in errors.items():
        form[name].errors = [message]
    return _page(form, None, 422)


def _page(form: JobForm, source: UUID | None, status: int = 200) -> ResponseReturnValue:
    waits = _waits(form.max_attempts.data or "")
    return render_template("jobs/new.html", form=form, source=source, waits=waits, zone=form.zone.data or "UTC"), status


def _waits(text: str) -> list[float] | None:
    """Seconds between the attempts; None when there is no such number of attempts."""
    text = text.strip()
    if not (text.isascii() and text.isdigit() and len(text) < 5 and 1 <= int(text) <= MAX_ATTEMPTS):
        return None
    return planned(DEFAULT_POLICY, int(text))
