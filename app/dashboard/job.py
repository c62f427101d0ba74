"""One job's page: what it is, what is next, its attempts with their answers, and its payload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from flask import Response, abort, render_template, request
from flask.typing import ResponseReturnValue

from app import request_text
from app.callback import JSON_TYPE, content_type_of, headers_of
from app.current import punctual
from app.dashboard import job_edit
from app.dashboard.attempt_times import last_wait
from app.dashboard.blueprint import is_fragment_request
from app.dashboard.json_text import pretty
from app.dashboard.roles import requires
from app.jobs import bulk, queries, sent, timeline
from app.jobs.planned import planned_attempts
from app.jobs.queries import ExecutionRow, JobDetail
from app.jobs.sent import Sent
from app.jobs.timeline import MOST_ATTEMPTS, Attempt, JobFacts

# A page stays readable, and is asked for again every few seconds: larger payloads are shown in part, and downloaded whole.
MOST_PAYLOAD_SHOWN = 64 * 1024
BODY_FILE = "body.txt"
OCTETS = "application/octet-stream"


@dataclass(frozen=True)
class Shown:
    """What templates/jobs/show.html shows of a job. `selected` is the attempt that is laid out, with what it sent."""

    job: JobDetail
    facts: JobFacts
    attempts: Sequence[Attempt]
    selected: ExecutionRow | None
    sent: Sent | None

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
    job, engine = shown.job, punctual().engine
    can = [action for action, leaves in bulk.LEAVES.items() if job.status in leaves]
    shared = {
        "shown": shown,
        "job": job,
        "facts": shown.facts,
        "changes": timeline.changes(engine, job_id),
        "tellings": timeline.tellings(engine, job_id),
        "can": [*can, *(["edit"] if job_edit.can_be_edited(job) else [])],
        "most_attempts": MOST_ATTEMPTS,
        "planned": planned_attempts(job),
        "wait": last_wait(job, shown.attempts),
        "request_text": _request_text(shown.sent),
    }
    if is_fragment_request():
        return render_template("jobs/_live.html", **shared)
    content_type = content_type_of(job.payload, job.content_type)
    own = headers_of(job.headers)
    fields = request_text.headers(job.id, job.type, max(1, job.attempts), job.max_attempts, own, content_type)
    return render_template(
        "jobs/show.html",
        **shared,
        body=body_text(job.payload, job.content_type),
        curl=request_text.curl(job.callback_url, fields, job.payload, job.method),
    )


def body_text(payload: str | None, content_type: str | None) -> str | None:
    """A body to read, JSON laid out; what is larger than MOST_PAYLOAD_SHOWN as it stands, in part. None: there is none."""
    if payload is None or len(payload) > MOST_PAYLOAD_SHOWN:
        return payload and payload[:MOST_PAYLOAD_SHOWN]
    return pretty(payload) if content_type is None else payload


@requires("viewer")
def payload(job_id: UUID) -> Response:
    """The body as a file, with its very bytes; never shown by the browser itself."""
    job = queries.get_job(punctual().engine, None, job_id)
    if job is None or job.payload is None:
        abort(404)
    name = request_text.PAYLOAD_FILE if job.content_type is None else BODY_FILE
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    mimetype = JSON_TYPE if job.content_type is None else OCTETS
    return Response(job.payload, headers=headers, mimetype=mimetype)


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
    selected, what = (number is not None and sent.attempt(engine, None, job_id, number)) or (None, None)
    return Shown(job, facts, attempts, selected, what)


def _request_text(what: Sent | None) -> str | None:
    """The head of the selected attempt's request, as that attempt sent it, without what may be secret."""
    if what is None:
        return None
    size = None if what.payload is None else len(what.payload.encode())
    fields = request_text.without_secrets(what.header_fields)
    return request_text.lines(what.callback_url, fields, size, what.method)
