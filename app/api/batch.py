"""/v1/jobs/batch: many jobs in one request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from flask import Response, g

from app import jobs
from app.api.answers import answer
from app.api.blueprint import bp, error_answers
from app.api.callback import Locate, job_request, take_together
from app.api.jobs import CONFLICT_WORDS, KEY_CONFLICT, TAG
from app.api.reading import reads
from app.api.schemas_batch import Batch, BatchResults, JobBatch
from app.api.tracing import submitting
from app.current import punctual
from app.errors import InvalidRequest
from app.instants import format_instant
from app.jobs.requests import JobRequest, Submitted
from app.metrics import count_submitted


@bp.post("/jobs/batch", tags=[TAG], responses={"200": BatchResults, **error_answers(413, 415)})
@reads
def create_jobs(body: JobBatch) -> Response:
    """Submit up to 1,000 jobs

    An array, or a JSON object a line (application/x-ndjson), 10 MiB at most. One result for each item, in their order: `created`,
    `replayed` (its key had made this job before), `conflict` (its key was used for another request) or `invalid`, with the error. Valid
    ones are accepted even when others are not. It counts as one request of the quota.
    """
    batch: Batch = body  # type: ignore[assignment]
    locate = take_together(_addresses(batch))
    wanted = [_wanted(item, locate) for item in batch.items]
    asked = [request for request in wanted if isinstance(request, JobRequest)]
    with submitting() as traceparent:
        if traceparent is not None:
            asked = [replace(request, traceparent=traceparent) for request in asked]
        submitted = iter(jobs.submit_batch(punctual(), asked))
    results = [_shown(next(submitted) if isinstance(request, JobRequest) else request) for request in wanted]
    for queue, count in _made(wanted, results).items():
        count_submitted(g.client_name, queue, count)
    return answer(results)


def _made(wanted: list[JobRequest | InvalidRequest], results: list[dict[str, Any]]) -> Counter[str]:
    """How many jobs were made, by queue."""
    return Counter(
        request.queue
        for request, result in zip(wanted, results, strict=True)
        if isinstance(request, JobRequest) and result["result"] == "created"
    )


def _addresses(batch: Batch) -> Iterator[str]:
    for item in batch.items:
        if not isinstance(item, InvalidRequest):
            yield from filter(None, (item.callback_url, item.on_success_url, item.on_failure_url))


def _wanted(item: Any, locate: Locate) -> JobRequest | InvalidRequest:
    if isinstance(item, InvalidRequest):
        return item
    try:
        return job_request(item, g.client_id, item.idempotency_key, locate)
    except InvalidRequest as error:
        return error


def _shown(found: Submitted | InvalidRequest) -> dict[str, Any]:
    if isinstance(found, InvalidRequest):
        return {"result": "invalid", "error": found.body()}
    if found.outcome == "conflict":
        return {"result": "conflict", "error": {"code": KEY_CONFLICT, "message": CONFLICT_WORDS}}
    job = {"id": str(found.job_id), "status": found.status, "run_at": format_instant(found.run_at)}
    return {"result": found.outcome, **job}
