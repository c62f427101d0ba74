"""Submitting a job: the form, filled from another job when it is a duplicate, with a test of the call before it is made."""

from __future__ import annotations

from uuid import UUID

from flask import flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from wtforms import HiddenField, RadioField, SelectChoice, SelectField, StringField

from app import audit, jobs
from app.current import punctual
from app.dashboard import callback_form, callback_test, choices, context, formats, submission, viewer
from app.dashboard.callback_form import CallbackForm
from app.dashboard.cron_form import wall_time
from app.dashboard.form_errors import FormRefused
from app.dashboard.job_actions import by_me
from app.dashboard.planned_delays import plan_of
from app.dashboard.roles import requires
from app.dashboard.submission import UNITS
from app.database import autocommit
from app.errors import InvalidRequest
from app.jobs import queries
from app.jobs.queries import JobDetail
from app.jobs.requests import JobRequest, Submitted
from app.metrics import count_submitted


class JobForm(CallbackForm):
    """Every rule is in app.dashboard.submission, which has them from the API."""

    client = SelectField(
        "Client", validate_choice=False, description="Whose job it is: its keys see it, its secret signs it."
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
    # The job that this one is a copy of: what its form cannot show is taken from there.
    source = HiddenField()
    expires_at = StringField("Expires", description="Optional: not begun by then, it is cancelled.")
    idempotency_key = StringField(
        "Idempotency key", description="Optional: the same key never makes a second job of this client."
    )


@requires("operator")
def new() -> ResponseReturnValue:
    form = JobForm()
    clients = choices.clients()
    form.client.choices = [SelectChoice(str(client_id), formats.shortened(name)) for client_id, name in clients.items()]
    if request.method == "GET":
        _fill(form)
        return _page(form)
    source = _job(form.source.data)
    if not form.validate_on_submit():
        return _page(form)
    if callback_test.is_asked_for():
        client_id = int(form.client.data) if form.client.data in map(str, clients) else None
        return callback_test.answer(form, source, client_id, lambda: _page(form))
    if form.client.data not in map(str, clients):
        return _refused(form, {"client": "Choose whose job it is."})
    try:
        wanted = submission.read(form.texts(), int(form.client.data), source)
    except FormRefused as refused:
        return _refused(form, refused.errors)
    try:
        submitted = _submit(wanted, clients[wanted.client_id])
    except InvalidRequest as error:
        return _refused(form, {detail["field"]: detail["message"] for detail in error.details or ()})
    if submitted.outcome == "conflict":
        return _refused(form, {"idempotency_key": "This key was used for another job: take another, or leave it out."})
    if submitted.outcome == "replayed":
        flash("This key was used before, for the same job: here it is. No second one was made.", "info")
    else:
        flash("The job is accepted.", "success")
    return redirect(url_for("dashboard.jobs.show", job_id=submitted.job_id))


def _submit(wanted: JobRequest, client_name: str) -> Submitted:
    submitted = jobs.submit(punctual(), wanted)
    if submitted.outcome == "created":
        count_submitted(client_name, wanted.queue)
        by, job_id = by_me(), str(submitted.job_id)
        with autocommit(punctual().engine) as conn:
            detail = {"type": wanted.type}
            audit.record(conn, by.kind, by.name, wanted.client_id, "job.submit", "job", job_id, detail, by.address)
    return submitted


def _fill(form: JobForm) -> None:
    """Fills an empty form: from the job that the address names, or with the defaults."""
    form.zone.data = viewer.zone_name()
    job = _job(request.args.get("from"))
    if job is not None:
        callback_form.fill(form, job, job.type)
        form.client.data, form.source.data = str(job.client_id), str(job.id)
        if job.expires_at is not None and job.expires_at > context.now():
            form.expires_at.data = wall_time(job.expires_at, form.zone.data)


def _job(job_id: str | None) -> JobDetail | None:
    try:
        return queries.get_job(punctual().engine, None, UUID(job_id or ""))
    except ValueError:
        return None


def _refused(form: JobForm, errors: dict[str, str]) -> ResponseReturnValue:
    form.refuse(errors)
    return _page(form)


def _page(form: JobForm) -> ResponseReturnValue:
    page = render_template("jobs/new.html", form=form, plan=plan_of(form), zone=form.zone.data or "UTC")
    return page, 422 if form.errors else 200
