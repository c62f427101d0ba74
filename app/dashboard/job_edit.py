"""Changing a job that has not started, or a dead one before it is retried: the form of a job, filled from it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from flask import abort, flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from wtforms import HiddenField, RadioField, SelectChoice, SelectField, StringField

from app import audit, jobs
from app.api.callback import job_request
from app.api.reading import validated
from app.api.schemas_jobs import JobSubmission
from app.callback import values_of
from app.current import punctual
from app.dashboard import callback_fields, callback_form, callback_test, context, submission, viewer
from app.dashboard.callback_form import CallbackForm
from app.dashboard.form_errors import FormRefused, told
from app.dashboard.job_actions import by_me, retry
from app.dashboard.planned_delays import plan_of
from app.dashboard.roles import requires
from app.dashboard.submission import UNITS
from app.database import autocommit
from app.errors import InvalidRequest
from app.jobs import JobEdit, queries
from app.jobs.queries import JobDetail
from app.jobs.requests import Changed
from app.models import UNCLAIMED

SHOW = "dashboard.jobs.show"


class EditForm(CallbackForm):
    """All of a job that can be changed; its type and client stay."""

    when = RadioField(
        "When",
        choices=[SelectChoice("keep", "As planned"), SelectChoice("delay", "In"), SelectChoice("at", "At")],
        default="keep",
        validate_choice=False,
    )
    delay = StringField("How long from now", default="5")
    unit = SelectField("Unit", choices=[SelectChoice(unit) for unit in UNITS], default="minutes", validate_choice=False)
    run_at = StringField("Day and time")
    zone = HiddenField()


def can_be_edited(job: JobDetail) -> bool:
    """As app.jobs.edit has it."""
    return job.status == "dead" or _is_waiting(job)


@requires("operator")
def edit(job_id: UUID) -> ResponseReturnValue:
    job = queries.get_job(punctual().engine, None, job_id)
    if job is None:
        abort(404)
    form = EditForm()
    if request.method == "GET":
        callback_form.fill(form, job, job.type)
        form.zone.data = viewer.zone_name()
        return _page(form, job)
    if not form.validate_on_submit():
        return _page(form, job)
    if callback_test.is_asked_for():
        return callback_test.answer(form, job, job.client_id, lambda: _page(form, job))
    try:
        wanted = _read(form, job)
        changed = jobs.edit(punctual(), None, job_id, wanted) if wanted else Changed("unchanged")
    except (FormRefused, InvalidRequest) as refused:
        form.refuse(
            refused.errors if isinstance(refused, FormRefused) else told(refused, "callback_url"), "callback_url"
        )
        return _page(form, job)
    if changed.outcome == "refused":
        flash(changed.reason or f"The job is {changed.status}: it can no longer be changed.", "warning")
        return redirect(url_for(SHOW, job_id=job_id))
    _note(job, wanted)
    if "retry" in request.form:
        return retry(job_id)
    flash("The job is changed." if wanted else "Nothing was changed.", "success" if wanted else "info")
    return redirect(url_for(SHOW, job_id=job_id))


def _read(form: EditForm, job: JobDetail) -> JobEdit:
    """What is to be changed: only what differs. Raises FormRefused."""
    fields = {**form.texts(), "type": job.type, "queue": job.queue}
    values, errors = callback_fields.read(fields, job, job.type)
    run_at: datetime | None = None
    try:
        run_at = _run_at(fields) if _is_waiting(job) else None
    except ValueError as error:
        errors["when"] = str(error)
    if not errors and values["max_attempts"] < job.attempts:
        errors["max_attempts"] = f"It has had {job.attempts} attempts already: give at least as many."
    if errors:
        raise FormRefused(errors)
    callback_fields.check_size(values)
    try:
        asked = values_of(job_request(validated(JobSubmission, values), job.client_id, None))
    except InvalidRequest as error:
        raise FormRefused(told(error, "type")) from None
    changes: Any = {name: value for name, value in asked.items() if getattr(job, name, None) != value}
    for name in ("callback", "on_success", "on_failure"):
        if f"{name}_url" not in changes:
            changes.pop(f"{name}_host", None)
    if run_at is not None:
        changes["run_at"] = run_at
    wanted: JobEdit = changes
    return wanted


def _run_at(fields: dict[str, str]) -> datetime | None:
    """None: it stays as planned. Raises ValueError with a sentence for a person."""
    match submission.read_time(fields):
        case {"delay_seconds": seconds}:
            if seconds > submission.MAX_DELAY_SECONDS:
                raise ValueError("It must be a year at most.")
            return context.now() + timedelta(seconds=seconds)
        case {"run_at": text}:
            return datetime.fromisoformat(text)
    return None


def _is_waiting(job: JobDetail) -> bool:
    return job.status in UNCLAIMED and not job.attempts


def _note(job: JobDetail, wanted: JobEdit) -> None:
    if wanted:
        by, changed = by_me(), sorted(name for name in wanted if not name.endswith("_host"))
        with autocommit(punctual().engine) as conn:
            detail = {"fields": changed}
            audit.record(conn, by.kind, by.name, job.client_id, "job.edit", "job", str(job.id), detail, by.address)


def _page(form: EditForm, job: JobDetail) -> ResponseReturnValue:
    page = render_template(
        "jobs/edit.html",
        form=form,
        job=job,
        plan=plan_of(form),
        is_waiting=_is_waiting(job),
        can_be_edited=can_be_edited(job),
        zone=form.zone.data or "UTC",
    )
    return page, 422 if form.errors else 200
