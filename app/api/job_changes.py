"""/v1/jobs/{id}: cancel, change, retry, run now. Each is on record in the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from flask import Response, g

from app import audit, jobs
from app.api.answers import answer, no_content
from app.api.blueprint import bp, error_answers
from app.api.callback import job_edit
from app.api.job_shapes import detail
from app.api.jobs import TAG, find, not_found
from app.api.reading import reads
from app.api.schemas import JobPath
from app.api.schemas_jobs import Job, JobChange
from app.auth import request_address
from app.current import punctual
from app.database import autocommit
from app.errors import Conflict
from app.jobs.requests import Changed


@bp.delete("/jobs/<job_id:job_id>", tags=[TAG], responses={"204": None, **error_answers(404, 409)})
@reads
def cancel_job(path: JobPath) -> Response:
    """Cancel a job

    Only one that waits, pending or scheduled, can be cancelled.
    """
    changed = jobs.cancel(punctual(), g.client_id, path.job_id)
    _raise_unless_changed(changed, path.job_id, "only a pending or scheduled job can be cancelled")
    _note("job.cancel", path.job_id)
    return no_content()


@bp.patch("/jobs/<job_id:job_id>", tags=[TAG], responses={"200": Job, **error_answers(404, 409, 413, 415)})
@reads
def edit_job(path: JobPath, body: JobChange) -> Response:
    """Change a job

    Only one that has not started, or that is dead: change what was wrong with it, then retry it. Attempts that were made
    stay on record as they were sent. A run_at that is moved later is never delivered at the earlier time.
    """
    # Before a host is looked up: a stranger's job is a 404 whatever the change.
    find(path.job_id)
    changed = jobs.edit(punctual(), g.client_id, path.job_id, job_edit(body))
    _raise_unless_changed(changed, path.job_id, "it cannot be changed")
    _note("job.edit", path.job_id, sorted(body.model_fields_set))
    return answer(detail(find(path.job_id)))


@bp.post("/jobs/<job_id:job_id>/retry", tags=[TAG], responses={"200": Job, **error_answers(404, 409)})
@reads
def retry_job(path: JobPath) -> Response:
    """Retry a dead job

    It gets its whole budget of attempts again, and is due at once.
    """
    changed = jobs.retry(punctual(), g.client_id, path.job_id)
    _raise_unless_changed(changed, path.job_id, "only a dead job can be retried")
    _note("job.retry", path.job_id)
    job = find(path.job_id)
    # A worker may have claimed it, or finished it, before we read it: the answer is about the change that was asked for.
    return answer(detail(replace(job, status=changed.status or job.status, attempts=0, finished_at=None)))


@bp.post("/jobs/<job_id:job_id>/run-now", tags=[TAG], responses={"200": Job, **error_answers(404, 409)})
@reads
def run_job_now(path: JobPath) -> Response:
    """Run a job now

    Makes a scheduled job due, be it for its first attempt or for its next one, which counts as it would have. A pending job
    is due as it is.
    """
    changed = jobs.run_now(punctual(), g.client_id, path.job_id)
    _raise_unless_changed(changed, path.job_id, "only a scheduled job can be made due")
    if changed.outcome == "changed":
        _note("job.run_now", path.job_id)
    return answer(detail(find(path.job_id)))


def _note(action: str, job_id: UUID, fields: Sequence[str] = ()) -> None:
    """Notes a change in the audit log. A submission is not noted: the job is its own record."""
    with autocommit(punctual().engine) as conn:
        key = str(g.api_key_prefix)
        detail = {"fields": list(fields)} if fields else {}
        audit.record(conn, "api_key", key, g.client_id, action, "job", str(job_id), detail, request_address())


def _raise_unless_changed(changed: Changed, job_id: UUID, rule: str) -> None:
    if changed.outcome == "missing":
        raise not_found(job_id)
    if changed.outcome == "refused":
        raise Conflict(changed.reason or f"The job is {changed.status}: {rule}.")
