"""/v1/cron-jobs: schedules, and the jobs they make."""

from __future__ import annotations

from typing import Any

from flask import Response, g
from flask_openapi3.models.tag import Tag

from app import cron_entries
from app.api.answers import answer, no_content, page
from app.api.blueprint import bp, error_answers
from app.api.callback import take
from app.api.reading import reads
from app.api.schemas import CronJobPath
from app.api.schemas_cron import (
    CreatedCronJob,
    CronJob,
    CronJobChange,
    CronJobCreation,
    CronJobList,
    CronJobsQuery,
    CronPreview,
    CronTimes,
    JobTemplate,
)
from app.api.strict_json import Raw
from app.cron_entries import Change, Entry, Template
from app.current import punctual
from app.instants import format_instant, format_optional

TAG = Tag(name="Cron jobs", description="A schedule plus a job template.")


@bp.post("/cron-jobs", tags=[TAG], responses={"201": CreatedCronJob, **error_answers(409, 413, 415)})
@reads
def create_cron_job(body: CronJobCreation) -> Response:
    """Create a cron job"""
    # The schedule is looked at first: it costs nothing, and the template's host may have to be looked up.
    cron_entries.read_schedule(body.cron_expression, body.timezone)
    template = _template(body.job_template)
    entry_id = cron_entries.create(
        punctual().engine, g.client_id, body.name, body.cron_expression, body.timezone, template
    )
    return answer({"id": entry_id}, 201, {"Location": f"{bp.url_prefix}/cron-jobs/{entry_id}"})


@bp.get("/cron-jobs", tags=[TAG], responses={"200": CronJobList})
@reads
def list_cron_jobs(query: CronJobsQuery) -> Response:
    """List cron jobs, newest first"""
    rows = cron_entries.list_entries(punctual().engine, g.client_id, query.limit + 1, query.offset, query.cursor)
    return page([_shown(entry) for entry in rows], query.limit)


@bp.get("/cron-jobs/<cron_job_id>", tags=[TAG], responses={"200": CronJob, **error_answers(404)})
@reads
def get_cron_job(path: CronJobPath) -> Response:
    """Get a cron job"""
    return answer(_shown(cron_entries.get(punctual().engine, g.client_id, path.cron_job_id)))


@bp.patch("/cron-jobs/<cron_job_id>", tags=[TAG], responses={"204": None, **error_answers(404, 409, 413, 415)})
@reads
def change_cron_job(path: CronJobPath, body: CronJobChange) -> Response:
    """Change a cron job

    Another expression or time zone, or enabling a disabled entry, computes its next time anew, from now.
    """
    # Before the host is looked up: a stranger's entry is a 404 whatever the change.
    cron_entries.get(punctual().engine, g.client_id, path.cron_job_id)
    wanted = Change(
        name=body.name,
        expression=body.cron_expression,
        timezone=body.timezone,
        template=None if body.job_template is None else _template(body.job_template),
        enabled=body.enabled,
    )
    cron_entries.change(punctual().engine, g.client_id, path.cron_job_id, wanted)
    return no_content()


@bp.delete("/cron-jobs/<cron_job_id>", tags=[TAG], responses={"204": None, **error_answers(404)})
@reads
def delete_cron_job(path: CronJobPath) -> Response:
    """Delete a cron job

    Jobs it has made go on.
    """
    cron_entries.remove(punctual().engine, g.client_id, path.cron_job_id)
    return no_content()


@bp.post("/cron-jobs/preview", tags=[TAG], responses={"200": CronTimes, **error_answers(413, 415)})
@reads
def preview_cron_job(body: CronPreview) -> Response:
    """Preview the times of an expression"""
    times, words = cron_entries.preview(punctual().engine, body.cron_expression, body.timezone, body.after, body.count)
    return answer({"next": [format_instant(time) for time in times], "description": words})


def _template(given: JobTemplate) -> Template:
    target = take(given.callback_url, "job_template.callback_url")
    return Template(
        job_type=given.type,
        payload=given.payload.text,
        callback_url=target.url,
        callback_host=target.key,
        max_attempts=given.max_attempts,
    )


def _shown(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "name": entry.name,
        "cron_expression": entry.expression,
        "timezone": entry.timezone,
        "job_template": {
            "type": entry.job_type,
            "payload": Raw(entry.payload, None),
            "callback_url": entry.callback_url,
            "max_attempts": entry.max_attempts,
        },
        "enabled": entry.enabled,
        "next_run_at": format_optional(entry.next_run_at) if entry.enabled else None,
        "last_run_at": format_optional(entry.last_run_at),
        "disabled_reason": entry.disabled_reason,
    }
