"""/v1/jobs/bulk: changing every job that a filter matches, in the background."""

from __future__ import annotations

from flask import Response, g

from app.api.answers import answer, no_content
from app.api.blueprint import bp, error_answers
from app.api.cron_jobs import by_key
from app.api.jobs import TAG, job_search
from app.api.reading import reads
from app.api.schemas_bulk import BulkAccepted, BulkChange, BulkMatched, BulkOperation, BulkPath
from app.current import punctual
from app.errors import Conflict, NotFound, invalid
from app.instants import format_instant, format_optional
from app.jobs import bulk_operations, search
from app.jobs.bulk import LEAVES
from app.jobs.bulk_operations import Operation
from app.jobs.search import Count


@bp.post("/jobs/bulk", tags=[TAG], responses={"202": BulkAccepted, "200": BulkMatched, **error_answers(413, 415)})
@reads
def change_jobs(body: BulkChange) -> Response:
    """Retry, cancel or delete every job that matches

    It runs in the background, in batches, and touches what matched when it was asked for: a job that has changed since is left alone.
    """
    if body.spread_seconds is not None and body.action != "retry":
        raise invalid("spread_seconds", "only a retry can be spread: leave it out.")
    wanted = job_search(body.filter)
    if body.dry_run:
        narrowed = search.narrowed(wanted, LEAVES[body.action])
        found = Count(0) if narrowed is None else search.count(punctual().engine, narrowed)
        return answer({"matched": found.number, **({"is_estimate": True} if found.is_estimate else {})})
    made = bulk_operations.ask(punctual().engine, body.action, wanted, by_key(), body.spread_seconds)
    return answer({"id": made}, 202, {"Location": f"{bp.url_prefix}/bulk/{made}"})


@bp.get("/bulk/<bulk_id>", tags=[TAG], responses={"200": BulkOperation, **error_answers(404)})
@reads
def get_bulk(path: BulkPath) -> Response:
    """Get how far a change of many jobs is"""
    found = _find(path.bulk_id)
    return answer(
        {
            "id": found.id,
            "action": found.action,
            "state": found.state,
            "matched": found.matched,
            "changed": found.changed,
            "passed_by": found.passed_by,
            "error": found.error,
            "created_at": format_instant(found.created_at),
            "finished_at": format_optional(found.finished_at),
        }
    )


@bp.post("/bulk/<bulk_id>/stop", tags=[TAG], responses={"204": None, **error_answers(404, 409)})
@reads
def stop_bulk(path: BulkPath) -> Response:
    """Stop a change of many jobs

    What it has done stays done.
    """
    if not bulk_operations.stop(punctual().engine, path.bulk_id, by_key()):
        raise Conflict(f"The operation is {_find(path.bulk_id).state}: only one that waits or runs can be stopped.")
    return no_content()


def _find(bulk_id: int) -> Operation:
    found = bulk_operations.get(punctual().engine, g.client_id, bulk_id)
    if found is None:
        raise NotFound(f"There is no bulk operation {bulk_id}.")
    return found
