"""/v1/jobs: submit, read, cancel, retry."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from flask import Response, g
from flask_openapi3.models.tag import Tag

from app import audit, jobs
from app.api.answers import answer, no_content, page
from app.api.blueprint import bp, error_answers
from app.api.callback import job_request
from app.api.callback_shapes import callback
from app.api.reading import reads
from app.api.schemas import JobPath
from app.api.schemas_jobs import (
    ExecutionList,
    IdempotencyHeader,
    Job,
    JobList,
    JobsQuery,
    JobSubmission,
    SubmittedJob,
)
from app.auth import request_address
from app.current import punctual
from app.database import autocommit
from app.errors import Conflict, NotFound, invalid
from app.instants import format_instant, format_optional
from app.jobs import queries
from app.jobs.planned import planned_attempts
from app.jobs.queries import ExecutionRow, JobDetail, JobFilter, JobRow
from app.jobs.requests import Changed
from app.metrics import count_submitted

KEY_CONFLICT = "IDEMPOTENCY_KEY_CONFLICT"
TAG = Tag(name="Jobs", description="One callback to deliver, once.")


@bp.post("/jobs", tags=[TAG], responses={"201": SubmittedJob, "200": SubmittedJob, **error_answers(409, 413, 415)})
@reads
def create_job(header: IdempotencyHeader, body: JobSubmission) -> Response:
    """Submit a job

    With an idempotency key a repeated request gets 200 and the first one's job; the same key with anything else in the request
    is a 409. The payload counts by its value, run_at and delay_seconds do not.
    """
    submitted = jobs.submit(punctual(), job_request(body, g.client_id, _key(header, body)))
    if submitted.outcome == "conflict":
        raise Conflict(
            "The idempotency key was used for another request. Use a new key, or send the request as it was.",
            code=KEY_CONFLICT,
        )
    shown = {"id": str(submitted.job_id), "status": submitted.status, "run_at": format_instant(submitted.run_at)}
    if submitted.outcome == "replayed":
        return answer(shown)
    count_submitted()
    return answer(shown, 201, {"Location": f"{bp.url_prefix}/jobs/{submitted.job_id}"})


def _key(header: IdempotencyHeader, body: JobSubmission) -> str | None:
    if header.key is not None and body.idempotency_key not in (None, header.key):
        raise invalid(
            "idempotency_key", "it differs from the Idempotency-Key header: send one of them, or the same in both."
        )
    return header.key or body.idempotency_key


@bp.get("/jobs", tags=[TAG], responses={"200": JobList})
@reads
def list_jobs(query: JobsQuery) -> Response:
    """List jobs, newest first

    Without their payloads. While there are more, the Link header holds the address of the next page.
    """
    wanted = JobFilter(client_id=g.client_id, status=query.status)
    rows = queries.list_jobs(punctual().engine, wanted, query.limit + 1, query.offset, query.cursor)
    return page([summary(row) for row in rows], query.limit)


@bp.get("/jobs/<job_id>", tags=[TAG], responses={"200": Job, **error_answers(404)})
@reads
def get_job(path: JobPath) -> Response:
    """Get a job"""
    return answer(detail(_find(path.job_id)))


@bp.get("/jobs/<job_id>/executions", tags=[TAG], responses={"200": ExecutionList, **error_answers(404)})
@reads
def list_executions(path: JobPath) -> Response:
    """List a job's executions, oldest first"""
    rows = queries.list_executions(punctual().engine, g.client_id, path.job_id)
    if rows is None:
        raise _not_found(path.job_id)
    return answer([execution(row) for row in rows])


@bp.delete("/jobs/<job_id>", tags=[TAG], responses={"204": None, **error_answers(404, 409)})
@reads
def cancel_job(path: JobPath) -> Response:
    """Cancel a job

    Only one that waits, pending or scheduled, can be cancelled.
    """
    changed = jobs.cancel(punctual(), g.client_id, path.job_id)
    _raise_unless_changed(changed, path.job_id, "only a pending or scheduled job can be cancelled")
    _note("job.cancel", path.job_id)
    return no_content()


@bp.post("/jobs/<job_id>/retry", tags=[TAG], responses={"200": Job, **error_answers(404, 409)})
@reads
def retry_job(path: JobPath) -> Response:
    """Retry a dead job

    It gets its whole budget of attempts again, and is due at once.
    """
    changed = jobs.retry(punctual(), g.client_id, path.job_id)
    _raise_unless_changed(changed, path.job_id, "only a dead job can be retried")
    _note("job.retry", path.job_id)
    job = _find(path.job_id)
    # A worker may have claimed it, or finished it, before we read it: the answer is about the change that was asked for.
    return answer(detail(replace(job, status=changed.status or job.status, attempts=0, finished_at=None)))


def _note(action: str, job_id: UUID) -> None:
    """Notes a change in the audit log. A submission is not noted: the job is its own record."""
    with autocommit(punctual().engine) as conn:
        key = str(g.api_key_prefix)
        audit.record(conn, "api_key", key, g.client_id, action, "job", str(job_id), address=request_address())


def _raise_unless_changed(changed: Changed, job_id: UUID, rule: str) -> None:
    if changed.outcome == "missing":
        raise _not_found(job_id)
    if changed.outcome == "refused":
        raise Conflict(f"The job is {changed.status}: {rule}.")


def _find(job_id: UUID) -> JobDetail:
    job = queries.get_job(punctual().engine, g.client_id, job_id)
    if job is None:
        raise _not_found(job_id)
    return job


def _not_found(job_id: UUID) -> NotFound:
    return NotFound(f"There is no job {job_id}.")


def summary(job: JobRow) -> dict[str, Any]:
    """A job as lists show it."""
    return {
        "id": str(job.id),
        "type": job.type,
        "queue": job.queue,
        "priority": job.priority,
        "tags": job.tags,
        "method": job.method,
        "callback_url": job.callback_url,
        "status": job.status,
        "run_at": format_instant(job.run_at),
        "scheduled_for": format_instant(job.scheduled_for),
        "expires_at": format_optional(job.expires_at),
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
        "last_error": job.last_error,
        "last_status_code": job.last_status_code,
        "cron_job_id": job.cron_entry_id,
        "idempotency_key": job.idempotency_key,
        "queue_generation": job.queue_generation,
        "created_at": format_instant(job.created_at),
        "updated_at": format_instant(job.updated_at),
        "started_at": format_optional(job.started_at),
        "finished_at": format_optional(job.finished_at),
    }


def detail(job: JobDetail) -> dict[str, Any]:
    """A job whole, its payload as it was sent."""
    return {
        **summary(job),
        **callback(job),
        "follows_job_id": None if job.follows_job_id is None else str(job.follows_job_id),
        "planned_attempts": [format_instant(planned.at) for planned in planned_attempts(job)],
    }


def execution(row: ExecutionRow) -> dict[str, Any]:
    return {
        "number": row.number,
        "attempt": row.attempt,
        "status": row.status,
        "due_at": format_instant(row.due_at),
        "started_at": format_instant(row.started_at),
        "finished_at": format_instant(row.finished_at),
        "status_code": row.status_code,
        "error_class": row.error_class,
        "error": row.error,
        "timings": row.timings,
        "response_headers": row.response_headers,
        "response_body": row.response_body,
        "worker": None if row.worker is None else str(row.worker),
    }
