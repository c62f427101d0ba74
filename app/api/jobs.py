"""/v1/jobs: submit and read. What changes a job is in job_changes.py, its attempts are in executions.py."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from flask import Response, g
from flask_openapi3.models.tag import Tag

from app import jobs
from app.api.answers import answer, page
from app.api.blueprint import bp, error_answers
from app.api.callback import job_request
from app.api.job_shapes import detail, summary
from app.api.reading import reads
from app.api.schemas import JobPath
from app.api.schemas_filter import JobFilterFields, JobsQuery
from app.api.schemas_jobs import (
    IdempotencyHeader,
    Job,
    JobList,
    JobSubmission,
    SubmittedJob,
)
from app.api.tracing import submitting
from app.current import punctual
from app.errors import Conflict, NotFound, invalid
from app.instants import format_instant
from app.jobs import queries, search
from app.jobs.known_values import host_keys
from app.jobs.queries import JobDetail, JobFilter
from app.jobs.search import JobSearch
from app.metrics import count_submitted

KEY_CONFLICT = "IDEMPOTENCY_KEY_CONFLICT"
CONFLICT_WORDS = "The idempotency key was used for another request. Use a new key, or send the request as it was."
MAX_OFFSET = 10_000
TAG = Tag(name="Jobs", description="One callback to deliver, once.")


@bp.post("/jobs", tags=[TAG], responses={"201": SubmittedJob, "200": SubmittedJob, **error_answers(409, 413, 415)})
@reads
def create_job(header: IdempotencyHeader, body: JobSubmission) -> Response:
    """Submit a job

    With an idempotency key a repeated request gets 200 and the first one's job; the same key with anything else in the request
    is a 409. The payload counts by its value, run_at and delay_seconds do not.
    """
    wanted = job_request(body, g.client_id, _key(header, body))
    with submitting() as traceparent:
        submitted = jobs.submit(punctual(), wanted if traceparent is None else replace(wanted, traceparent=traceparent))
    if submitted.outcome == "conflict":
        raise Conflict(CONFLICT_WORDS, code=KEY_CONFLICT)
    shown = {"id": str(submitted.job_id), "status": submitted.status, "run_at": format_instant(submitted.run_at)}
    if submitted.outcome == "replayed":
        return answer(shown)
    count_submitted(g.client_name, body.queue)
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

    Without their payloads. While there are more, the Link header holds the address of the next page. Several statuses are given
    with commas between. An offset beside another filter than one status is 10,000 at most.
    """
    wanted = job_search(query)
    if wanted == JobSearch(client_id=g.client_id, statuses=wanted.statuses[:1]):
        status = wanted.statuses[0] if wanted.statuses else None
        plain = JobFilter(client_id=g.client_id, status=status)
        rows = queries.list_jobs(punctual().engine, plain, query.limit + 1, query.offset, query.cursor)
    else:
        if query.offset > MAX_OFFSET:
            raise invalid("offset", f"it is {MAX_OFFSET:,} at most beside these filters: go on by the Link header.")
        found = search.page(punctual().engine, wanted, query.offset + query.limit + 1, query.cursor)
        rows = found[query.offset :]
    return page([summary(row) for row in rows], query.limit)


def job_search(given: JobFilterFields) -> JobSearch:
    """The caller's jobs that are meant."""
    hosts = None if given.callback_host is None else host_keys(punctual().engine, given.callback_host)
    return JobSearch(
        client_id=g.client_id,
        statuses=given.status or (),
        type=given.type,
        callback_hosts=hosts,
        cron_entry_id=given.cron_job_id,
        error_class=given.error_class,
        created_from=given.created_from,
        created_until=given.created_to,
        run_from=given.run_at_from,
        run_until=given.run_at_to,
        queue=given.queue,
        tag=given.tag,
        idempotency_key=given.idempotency_key,
    )


@bp.get("/jobs/<job_id:job_id>", tags=[TAG], responses={"200": Job, **error_answers(404)})
@reads
def get_job(path: JobPath) -> Response:
    """Get a job"""
    return answer(detail(find(path.job_id)))


def find(job_id: UUID) -> JobDetail:
    """The caller's job. Raises NotFound."""
    job = queries.get_job(punctual().engine, g.client_id, job_id)
    if job is None:
        raise not_found(job_id)
    return job


def not_found(job_id: UUID) -> NotFound:
    return NotFound(f"There is no job {job_id}.")
