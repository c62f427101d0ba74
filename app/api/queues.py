"""/v1/queues: their limits, pausing, resuming, purging, and what each is doing."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from flask import Response, g
from flask_openapi3.models.tag import Tag

from app.api.answers import answer, no_content
from app.api.blueprint import bp, error_answers
from app.api.cron_jobs import by_key
from app.api.reading import reads
from app.api.schemas_queues import (
    PurgedCount,
    Queue,
    QueueList,
    QueuePath,
    QueuePause,
    QueuePurge,
    QueueSettings,
)
from app.current import punctual
from app.errors import invalid
from app.instants import format_instant, format_optional
from app.queues import changes, reading
from app.queues.reading import QueueRow, View

TAG = Tag(name="Queues", description="What limits hold back waits; it is never refused.")


@bp.get("/queues", tags=[TAG], responses={"200": QueueList})
@reads
def list_queues() -> Response:
    """List queues by name"""
    queues = reading.list_queues(punctual().engine, g.client_id)
    views = reading.views(punctual().engine, queues)
    return answer([shown(queue, views[queue.id]) for queue in queues])


@bp.get("/queues/<queue_name:name>", tags=[TAG], responses={"200": Queue, **error_answers(404)})
@reads
def get_queue(path: QueuePath) -> Response:
    """Get a queue

    It is there from its first job on.
    """
    return answer(_found(path.name))


@bp.put("/queues/<queue_name:name>", tags=[TAG], responses={"201": Queue, "200": Queue, **error_answers(413, 415)})
@reads
def put_queue(path: QueuePath, body: QueueSettings) -> Response:
    """Set all of a queue

    201 when it is new, else 200. What is left out gets its default, but for `paused`: left out, a queue that is paused stays
    paused. It acts within a second.
    """
    is_new = changes.put(punctual(), g.client_id, path.name, body.settings(), by_key())
    headers = {"Location": f"{bp.url_prefix}/queues/{quote(path.name)}"} if is_new else {}
    return answer(_found(path.name), 201 if is_new else 200, headers)


@bp.patch("/queues/<queue_name:name>", tags=[TAG], responses={"200": Queue, **error_answers(404, 413, 415)})
@reads
def change_queue(path: QueuePath, body: QueueSettings) -> Response:
    """Change a queue

    What is given is changed, the rest is left; null takes a limit or a default away. It acts within a second.
    """
    changes.patch(punctual(), g.client_id, path.name, body.settings(), by_key())
    return answer(_found(path.name))


@bp.post("/queues/<path:name>/pause", tags=[TAG], responses={"204": None, **error_answers(404, 413, 415)})
@reads
def pause_queue(path: QueuePath, body: QueuePause) -> Response:
    """Pause a queue

    Within a second none of its calls begins any more; what is under way ends. The body may be left out.
    """
    changes.pause(punctual(), g.client_id, path.name, body.reason, by_key())
    return no_content()


@bp.post("/queues/<path:name>/resume", tags=[TAG], responses={"204": None, **error_answers(404)})
@reads
def resume_queue(path: QueuePath) -> Response:
    """Resume a queue"""
    changes.resume(punctual(), g.client_id, path.name, by_key())
    return no_content()


@bp.post("/queues/<path:name>/purge", tags=[TAG], responses={"200": PurgedCount, **error_answers(404, 413, 415)})
@reads
def purge_queue(path: QueuePath, body: QueuePurge) -> Response:
    """Cancel what waits in a queue

    All its jobs that have not started, due or not. What runs goes on. The body repeats the queue's name.
    """
    reading.get(punctual().engine, g.client_id, path.name)
    if body.name != path.name:
        raise invalid("name", "it differs from the name in the address: give that one to purge the queue.")
    return answer({"cancelled": changes.purge(punctual(), g.client_id, path.name, by_key())})


def shown(queue: QueueRow, view: View) -> dict[str, Any]:
    """A queue."""
    rate = None
    if queue.rate_limit is not None:
        rate = {"limit": queue.rate_limit, "period_seconds": queue.rate_period_seconds}
    due_at = view.oldest_due_at
    return {
        "name": queue.name,
        "concurrency": queue.concurrency,
        "rate": rate,
        "paused": queue.paused_at is not None,
        "pause_reason": queue.pause_reason,
        "paused_at": format_optional(queue.paused_at),
        "paused_by": queue.paused_by,
        "default_max_attempts": queue.default_max_attempts,
        "default_timeout_seconds": queue.default_timeout_seconds,
        "circuit_breaker": queue.circuit_breaker,
        "waiting": view.waiting,
        "scheduled": view.scheduled,
        "in_flight": view.in_flight,
        "rate_used": view.rate_used,
        "oldest_due_at": format_optional(due_at),
        "oldest_age_seconds": None if due_at is None else (view.now - due_at).total_seconds(),
        "created_at": format_instant(queue.created_at),
        "updated_at": format_instant(queue.updated_at),
    }


def _found(name: str) -> dict[str, Any]:
    queue = reading.get(punctual().engine, g.client_id, name)
    return shown(queue, reading.views(punctual().engine, [queue])[queue.id])
