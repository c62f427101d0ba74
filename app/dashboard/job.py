"""One job's page: what it is, what is next, its attempts with their answers, and its payload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from flask import Response, abort, render_template, request
from flask.typing import ResponseReturnValue

from app.current import punctual
from app.dashboard import job_request
from app.dashboard.attempt_times import last_wait, phases
from app.dashboard.blueprint import is_fragment_request
from app.dashboard.json_text import pretty
from app.dashboard.roles import requires
from app.jobs import bulk, queries, timeline
from app.jobs.planned import planned_attempts
from app.jobs.queries import ExecutionRow, JobDetail
from app.jobs.timeline import MOST_ATTEMPTS, Attempt, JobFacts

# A page stays readable, and is asked for again every few seconds: larger payloads are shown in part, and downloaded whole.
MOST_PAYLOAD_SHOWN = 64 * 1024


@dataclass(frozen=True)
class Shown:
    """What templates/jobs/show.html shows of a job. `selected` is the attempt that is laid out with its answer."""

    job: JobDetail
    facts: JobFacts
    attempts: Sequence[Attempt]
    selected: ExecutionRow | None

    @property
    def slowest_ms(self) -> float:
        """The scale of the bars: the longest of the attempts, so that they can be compared."""
        return max((attempt.took_seconds * 1000 for attempt in self.attempts), default=0.0) or 1.0

    @property
    def is_following(self) -> bool:
        """Whether the newest attempt is shown, whichever that becomes."""
        return not request.args.get("attempt")


@requires("viewer")
def show(job_id: UUID) -> ResponseReturnValue:
    """The page; asked for by itself, only what changes over a job's life."""
    shown = _load(job_id)
    job = shown.job
    changes = timeline.changes(punctual().engine, job_id)
    can = [action for action, leaves in bulk.LEAVES.items() if job.status in leaves]
    shared = {
        "shown": shown,
        "job": job,
        "facts": shown.facts,
        "changes": changes,
        "can": can,
        "most_attempts": MOST_ATTEMPTS,
        "phases": phases,
        "planned": planned_attempts(job),
        "wait": last_wait(job, shown.attempts),
        "request_text": _request_text(shown),
    }
    if is_fragment_request():
        return render_template("jobs/_live.html", **shared)
    text = job.payload or "null"
    is_whole = len(text) <= MOST_PAYLOAD_SHOWN
    fields = job_request.headers(job.id, job.type, max(1, job.attempts), job.max_attempts)
    return render_template(
        "jobs/show.html",
        **shared,
        payload=pretty(text) if is_whole else text[:MOST_PAYLOAD_SHOWN],
        payload_is_whole=is_whole,
        curl=job_request.curl(job.callback_url, fields, text),
    )


@requires("viewer")
def payload(job_id: UUID) -> Response:
    """The payload as a file, with its very bytes; never shown by the browser itself."""
    job = queries.get_job(punctual().engine, None, job_id)
    if job is None:
        abort(404)
    headers = {"Content-Disposition": f'attachment; filename="{job_request.PAYLOAD_FILE}"'}
    return Response(job.payload or "null", headers=headers, mimetype="application/json")


def _load(job_id: UUID) -> Shown:
    engine = punctual().engine
    job, facts = queries.get_job(engine, None, job_id), timeline.facts(engine, job_id)
    if job is None or facts is None:
        abort(404)
    attempts = timeline.attempts(engine, job_id)
    wanted = request.args.get("attempt", "")
    number = int(wanted) if wanted.isascii() and wanted.isdigit() and len(wanted) < 10 else None
    if number is None and attempts:
        number = attempts[0].number
    selected = None if number is None else timeline.attempt(engine, job_id, number)
    return Shown(job, facts, attempts, selected)


def _request_text(shown: Shown) -> str | None:
    """The head of the selected attempt's request, as that attempt sent it."""
    if shown.selected is None:
        return None
    job = shown.job
    fields = job_request.headers(job.id, job.type, shown.selected.attempt, job.max_attempts)
    return job_request.lines(job.callback_url, fields, shown.facts.payload_bytes)
