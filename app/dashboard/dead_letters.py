"""Dead letters: what is dead, grouped by what killed it and where, to be retried or deleted by group or by filter."""

from __future__ import annotations

from flask import Blueprint, redirect, render_template, request
from flask.typing import ResponseReturnValue

from app.current import punctual
from app.dashboard import choices, job_filter, job_list
from app.dashboard.blueprint import is_fragment_request
from app.dashboard.roles import requires
from app.jobs import dead_letters, known_values
from app.jobs.search import COUNT_CAP

bp = Blueprint("dead_letters", __name__, url_prefix="/dead-letters")
INDEX = "dashboard.dead_letters.index"
DEAD = ["dead"]


@bp.get("/")
@requires("viewer")
def index() -> ResponseReturnValue:
    """The groups, and below them the dead jobs that the filter matches, newest first."""
    wanted = job_filter.read(request.args, status=DEAD)
    if not is_fragment_request() and not job_filter.is_tidy(request.args, wanted):
        return redirect(wanted.address(INDEX))
    clients = choices.clients()
    shared = {
        "groups": dead_letters.groups(punctual().engine),
        "cap": COUNT_CAP,
        "shown_host": known_values.shown_host,
        "host_of": known_values.host_of,
        "page": job_list.load(wanted, INDEX),
        "wanted": wanted,
        "clients": clients,
        "actions": ["retry", "delete"],
    }
    if is_fragment_request():
        return render_template("dead_letters/_live.html", **shared)
    engine = punctual().engine
    return render_template(
        "dead_letters/index.html",
        **shared,
        chips=job_filter.chips(wanted, INDEX, clients, hidden=("status",)),
        spans=job_filter.SPANS,
        local_value=job_filter.local_value,
        types=known_values.types(engine),
        hosts=[known_values.shown_host(host) for host in known_values.hosts(engine)],
        error_classes=known_values.error_classes(engine),
    )
