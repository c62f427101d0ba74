"""/v1/cron-jobs: schedules, and the jobs they make."""

from __future__ import annotations

from flask import Response, g
from flask_openapi3.models.tag import Tag

from app import cron_entries
from app.api.answers import answer, no_content, page
from app.api.blueprint import bp, error_answers
from app.api.callback import job_template
from app.api.cron_shapes import shown
from app.api.reading import reads
from app.api.schemas import CronJobPath
from app.api.schemas_cron import (
    CronJobChange,
    CronJobCreation,
    CronJobDefinition,
    CronJobNamePath,
    CronJobsQuery,
    CronPreview,
)
from app.api.schemas_cron_answers import CreatedCronJob, CronJob, CronJobList, CronTimes
from app.auth import request_address
from app.cron_entries import Change, Definition
from app.cron_entries.definition import composed
from app.current import punctual
from app.errors import invalid
from app.instants import format_instant
from app.jobs.bulk import By

TAG = Tag(name="Cron jobs", description="A schedule plus a job template.")


def by_key() -> By:
    """Whose key asks, for the audit log."""
    return By("api_key", g.api_key_prefix, request_address(), g.client_id)


@bp.post("/cron-jobs", tags=[TAG], responses={"201": CreatedCronJob, **error_answers(409, 413, 415)})
@reads
def create_cron_job(body: CronJobCreation) -> Response:
    """Create a cron job"""
    entry_id = cron_entries.create(punctual().engine, g.client_id, _definition(body, body.name), by_key())
    return answer({"id": entry_id}, 201, {"Location": _address(entry_id)})


@bp.put(
    "/cron-jobs/by-name/<path:name>",
    tags=[TAG],
    responses={"201": CreatedCronJob, "200": CreatedCronJob, **error_answers(413, 415)},
)
@reads
def put_cron_job(path: CronJobNamePath, body: CronJobDefinition) -> Response:
    """Create or replace a cron job by its name

    201 when it is new, else 200. The same definition again changes nothing. What is left out gets its default, but for
    `enabled`: left out, an entry that is paused stays paused.
    """
    name = composed(path.name)
    if body.name is not None and body.name != name:
        raise invalid("name", "it differs from the name in the address: leave it out, or PATCH the entry to rename it.")
    entry_id, is_new = cron_entries.replace(punctual().engine, g.client_id, _definition(body, name), by_key())
    return answer({"id": entry_id}, 201 if is_new else 200, {"Location": _address(entry_id)})


@bp.get("/cron-jobs", tags=[TAG], responses={"200": CronJobList})
@reads
def list_cron_jobs(query: CronJobsQuery) -> Response:
    """List cron jobs, newest first"""
    rows = cron_entries.list_entries(punctual().engine, g.client_id, query.limit + 1, query.offset, query.cursor)
    return page([shown(entry) for entry in rows], query.limit)


@bp.get("/cron-jobs/<entry_id:cron_job_id>", tags=[TAG], responses={"200": CronJob, **error_answers(404)})
@reads
def get_cron_job(path: CronJobPath) -> Response:
    """Get a cron job"""
    return answer(shown(cron_entries.get(punctual().engine, g.client_id, path.cron_job_id)))


@bp.patch("/cron-jobs/<entry_id:cron_job_id>", tags=[TAG], responses={"204": None, **error_answers(404, 409, 413, 415)})
@reads
def change_cron_job(path: CronJobPath, body: CronJobChange) -> Response:
    """Change a cron job

    Another expression or time zone computes its next time anew, from now; a time that had come and was not fired is skipped,
    with the reason `changed`. `enabled` pauses and resumes, as the calls of these names do. `null` for starts_at, ends_at or
    description takes it away.
    """
    # Before the host is looked up: a stranger's entry is a 404 whatever the change.
    cron_entries.get(punctual().engine, g.client_id, path.cron_job_id)
    wanted = Change(**body.model_dump(exclude_unset=True, exclude={"cron_expression", "job_template"}))  # type: ignore[typeddict-item]
    if body.cron_expression is not None:
        wanted["expression"] = body.cron_expression
    if body.job_template is not None:
        wanted["template"] = job_template(body.job_template)
    cron_entries.change(punctual().engine, g.client_id, path.cron_job_id, wanted, by_key())
    return no_content()


@bp.delete("/cron-jobs/<entry_id:cron_job_id>", tags=[TAG], responses={"204": None, **error_answers(404)})
@reads
def delete_cron_job(path: CronJobPath) -> Response:
    """Delete a cron job

    Jobs it has made go on.
    """
    cron_entries.remove(punctual().engine, g.client_id, path.cron_job_id, by_key())
    return no_content()


@bp.post("/cron-jobs/preview", tags=[TAG], responses={"200": CronTimes, **error_answers(413, 415)})
@reads
def preview_cron_job(body: CronPreview) -> Response:
    """Preview the times of an expression"""
    times, words = cron_entries.preview(punctual().engine, body.cron_expression, body.timezone, body.after, body.count)
    return answer({"next": [format_instant(time) for time in times], "description": words})


def _definition(body: CronJobDefinition, name: str | None) -> Definition:
    # The schedule is looked at first: it costs nothing, and the template's host may have to be looked up.
    cron_entries.read_schedule(body.cron_expression, body.timezone)
    given = body.model_dump(exclude={"cron_expression", "job_template", "name"})
    return Definition(name=name, expression=body.cron_expression, template=job_template(body.job_template), **given)


def _address(entry_id: int) -> str:
    return f"{bp.url_prefix}/cron-jobs/{entry_id}"
