"""Queues: everybody's with what they are doing, and their limits, which an operator changes, pauses, resumes and purges."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, abort, flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from app.circuits.reading import open_circuits
from app.current import punctual
from app.dashboard import choices, queue_form
from app.dashboard.blueprint import is_fragment_request
from app.dashboard.form_errors import FormRefused
from app.dashboard.job_actions import by_me
from app.dashboard.local_path import local_path
from app.dashboard.queue_form import QueueForm
from app.dashboard.roles import requires
from app.errors import NotFound
from app.jobs.known_values import shown_host
from app.queues import changes, reading
from app.queues.listing import search
from app.queues.reading import QueueRow

bp = Blueprint("queues", __name__, url_prefix="/queues")
INDEX = "dashboard.queues.index"
PAGE = 100
LAST_ID = 2**63 - 1
MAX_REASON = 1000


@bp.url_value_preprocessor
def refuse_what_no_queue_is_called(_endpoint: str | None, values: dict[str, Any] | None) -> None:
    """Numbers that PostgreSQL cannot hold."""
    if values is not None and values.get("queue_id", 0) > LAST_ID:
        abort(404)


@bp.get("/")
@requires("viewer")
def index() -> str:
    """Queues, by name."""
    q = request.args.get("q", "").strip().replace("\0", "")[:64] or None
    client_id, after = _number("client"), _number("after")
    found = search(punctual().engine, q=q, client_id=client_id, after=after, most=PAGE + 1)
    kept: dict[str, Any] = {"q": q, "client": client_id}
    return render_template(
        "queues/_list.html" if is_fragment_request() else "queues/index.html",
        queues=found[:PAGE],
        circuits=open_circuits(punctual().engine),
        shown_host=shown_host,
        kept=kept,
        is_filtered=any(kept.values()) or after is not None,
        clients=choices.clients(),
        first=url_for(INDEX, **kept) if after else None,
        more=url_for(INDEX, **kept, after=found[PAGE - 1].queue.id) if len(found) > PAGE else None,
    )


@bp.route("/<int:queue_id>/edit", methods=["GET", "POST"])
@requires("operator")
def edit(queue_id: int) -> ResponseReturnValue:
    queue, form = _find(queue_id), QueueForm()
    if request.method == "GET":
        queue_form.fill(form, queue)
    elif form.validate_on_submit():
        try:
            changes.patch(punctual(), queue.client_id, queue.name, queue_form.read(form), by_me())
        except FormRefused as refused:
            for name, message in refused.errors.items():
                form[name].errors = [message]
        else:
            flash("The queue is changed.", "success")
            return redirect(url_for(INDEX))
    client_name = choices.clients().get(queue.client_id, str(queue.client_id))
    page = render_template("queues/edit.html", form=form, queue=queue, client_name=client_name)
    return page, 422 if form.errors else 200


@bp.post("/<int:queue_id>/pause")
@requires("operator")
def pause(queue_id: int) -> ResponseReturnValue:
    queue = _find(queue_id)
    reason = request.form.get("reason", "").replace("\r\n", "\n").replace("\0", "").strip()[:MAX_REASON]
    changes.pause(punctual(), queue.client_id, queue.name, reason or None, by_me())
    flash("The queue is paused: none of its calls begins.", "success")
    return _back()


@bp.post("/<int:queue_id>/resume")
@requires("operator")
def resume(queue_id: int) -> ResponseReturnValue:
    queue = _find(queue_id)
    changes.resume(punctual(), queue.client_id, queue.name, by_me())
    flash("The queue goes on.", "success")
    return _back()


@bp.post("/<int:queue_id>/purge")
@requires("operator")
def purge(queue_id: int) -> ResponseReturnValue:
    """Only with the queue's name, typed."""
    queue = _find(queue_id)
    if request.form.get("name", "").strip() != queue.name.strip():
        flash("That is not the queue's name: nothing was cancelled.", "warning")
        return _back()
    count = changes.purge(punctual(), queue.client_id, queue.name, by_me())
    flash(f"{count:,} {'job is' if count == 1 else 'jobs are'} cancelled.", "success")
    return _back()


def _find(queue_id: int) -> QueueRow:
    try:
        return reading.get_by_id(punctual().engine, queue_id)
    except NotFound:
        abort(404)


def _back() -> ResponseReturnValue:
    return redirect(local_path(request.form.get("next"), url_for(INDEX)))


def _number(name: str) -> int | None:
    text = request.args.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
