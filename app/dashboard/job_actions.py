"""What a person may do to one job: retry it, run it now, cancel it, let a running one end, delete it. Each is on record in the audit log."""

from __future__ import annotations

from uuid import UUID

from flask import abort, flash, redirect, request, url_for
from flask.typing import ResponseReturnValue
from flask_login import current_user

from app import audit, jobs
from app.auth import request_address
from app.current import punctual
from app.dashboard.local_path import local_path
from app.dashboard.roles import requires
from app.database import autocommit, transaction
from app.jobs import bulk, queries
from app.jobs.bulk import Action, By

DONE = {
    "retry": "The job is on its way again, with all of its attempts.",
    "cancel": "The job is cancelled.",
    "delete": "The job is deleted.",
}
RULES = {
    "retry": "only a dead job can be retried",
    "cancel": "only a pending or scheduled job can be cancelled",
    "delete": "only a finished job can be deleted",
}


def by_me() -> By:
    """Who is signed in, for the audit log; users act on every client's jobs."""
    return By("user", current_user.name, request_address())


@requires("operator")
def retry(job_id: UUID) -> ResponseReturnValue:
    return _change("retry", job_id)


@requires("operator")
def cancel(job_id: UUID) -> ResponseReturnValue:
    return _change("cancel", job_id)


@requires("operator")
def delete(job_id: UUID) -> ResponseReturnValue:
    return _change("delete", job_id)


@requires("operator")
def stop(job_id: UUID) -> ResponseReturnValue:
    """Asks a running job to end with its attempt: instead of a retry it becomes cancelled (C11)."""
    by = by_me()
    with transaction(punctual().engine) as conn:
        is_marked = jobs.request_cancel(conn, job_id)
        if is_marked:
            audit.record(conn, by.kind, by.name, None, "job.stop", "job", str(job_id), address=by.address)
    if is_marked:
        flash("The attempt under way ends as it ends; there will be no other.", "success")
    else:
        flash(f"The job is {_status(job_id)}: only a running job can be asked to end.", "warning")
    return redirect(url_for("dashboard.jobs.show", job_id=job_id))


@requires("operator")
def run_now(job_id: UUID) -> ResponseReturnValue:
    """Makes a scheduled job due, be it for its first attempt or for the next one."""
    changed = jobs.run_now(punctual(), None, job_id)
    if changed.outcome == "missing":
        abort(404)
    if changed.outcome == "changed":
        by = by_me()
        with autocommit(punctual().engine) as conn:
            audit.record(conn, by.kind, by.name, None, "job.run_now", "job", str(job_id), address=by.address)
    if changed.outcome == "refused":
        flash(f"The job is {changed.status}: only a scheduled job can be run now.", "warning")
    else:
        flash("The job is due now.", "success")
    return redirect(url_for("dashboard.jobs.show", job_id=job_id))


def _change(action: Action, job_id: UUID) -> ResponseReturnValue:
    changed = bulk.change(punctual(), action, [job_id], by_me())
    if changed:
        flash(DONE[action], "success")
    else:
        flash(f"The job is {_status(job_id)}: {RULES[action]}.", "warning")
    there = url_for("dashboard.jobs.show", job_id=job_id)
    if changed and action == "delete":
        there = url_for("dashboard.jobs.index")
    return redirect(local_path(request.form.get("next"), there))


def _status(job_id: UUID) -> str:
    found = queries.get_job(punctual().engine, None, job_id)
    if found is None:
        abort(404)
    return found.status
