"""/v1/cron-jobs/{id}/…: pausing, resuming, running now or for times past, and what became of each planned time."""

from __future__ import annotations

from flask import Response, g

from app import cron_entries, cron_occurrences
from app.api.answers import answer, no_content, page
from app.api.blueprint import bp, error_answers
from app.api.cron_jobs import TAG, by_key
from app.api.cron_shapes import occurrence
from app.api.reading import reads
from app.api.schemas import CronJobPath
from app.api.schemas_cron import CronBackfill, CronOccurrencesQuery, CronPause
from app.api.schemas_cron_answers import BackfillCount, CronOccurrenceList, TriggeredJob
from app.current import punctual


@bp.post("/cron-jobs/<entry_id:cron_job_id>/trigger", tags=[TAG], responses={"201": TriggeredJob, **error_answers(404)})
@reads
def trigger_cron_job(path: CronJobPath) -> Response:
    """Run a cron job now

    Its schedule stays as it is; a paused one is run as well. Answers with the id of the job.
    """
    job_id = cron_entries.trigger(punctual(), g.client_id, path.cron_job_id, by_key())
    return answer({"id": str(job_id)}, 201, {"Location": f"{bp.url_prefix}/jobs/{job_id}"})


@bp.post("/cron-jobs/<entry_id:cron_job_id>/pause", tags=[TAG], responses={"204": None, **error_answers(404, 413, 415)})
@reads
def pause_cron_job(path: CronJobPath, body: CronPause) -> Response:
    """Pause a cron job

    What it misses is on record as skipped once it is resumed. The body may be left out.
    """
    cron_entries.pause(punctual().engine, g.client_id, path.cron_job_id, body.reason, by_key())
    return no_content()


@bp.post("/cron-jobs/<entry_id:cron_job_id>/resume", tags=[TAG], responses={"204": None, **error_answers(404)})
@reads
def resume_cron_job(path: CronJobPath) -> Response:
    """Resume a cron job

    It goes on from now: what it missed is not caught up. Also puts an end to what an error had disabled.
    """
    cron_entries.resume(punctual().engine, g.client_id, path.cron_job_id, by_key())
    return no_content()


@bp.post(
    "/cron-jobs/<entry_id:cron_job_id>/backfill",
    tags=[TAG],
    responses={"200": BackfillCount, **error_answers(404, 413, 415)},
)
@reads
def backfill_cron_job(path: CronJobPath, body: CronBackfill) -> Response:
    """Run a cron job for times that have passed

    A job, due now, for each planned time from `from` to `to`, both included, that has not fired; a thousand at most.
    With `dry_run` they are only counted.
    """
    count = cron_entries.backfill(
        punctual(), g.client_id, path.cron_job_id, body.first, body.last, by_key(), body.dry_run
    )
    return answer({"count": count})


@bp.get(
    "/cron-jobs/<entry_id:cron_job_id>/occurrences",
    tags=[TAG],
    responses={"200": CronOccurrenceList, **error_answers(404)},
)
@reads
def list_cron_occurrences(path: CronJobPath, query: CronOccurrencesQuery) -> Response:
    """List what became of a cron job's planned times, newest first

    A row with a count above 1 stands for all skipped times from nominal_at to through_at.
    """
    entry = cron_entries.get(punctual().engine, g.client_id, path.cron_job_id)
    rows = cron_occurrences.list_occurrences(punctual().engine, entry.id, query.limit + 1, query.offset, query.cursor)
    return page([occurrence(row) for row in rows], query.limit, "nominal_at")
