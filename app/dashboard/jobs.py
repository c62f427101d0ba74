"""The list of jobs with its filters, and the addresses of everything under /jobs."""

from __future__ import annotations

from uuid import UUID

from flask import Blueprint, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from app.current import punctual
from app.dashboard import (
    bulk_progress,
    choices,
    form_room,
    job,
    job_actions,
    job_bulk,
    job_edit,
    job_filter,
    job_list,
    job_submit,
    planned_delays,
)
from app.dashboard.blueprint import is_fragment_request
from app.dashboard.roles import requires
from app.jobs import known_values, queries
from app.models import STATUSES

bp = Blueprint("jobs", __name__, url_prefix="/jobs")
INDEX = "dashboard.jobs.index"


@bp.get("/")
@requires("viewer")
def index() -> ResponseReturnValue:
    """Jobs, newest first. A whole id in the search box leads to its job."""
    wanted = job_filter.read(request.args)
    if not is_fragment_request():
        if (exact := _exactly_one(wanted)) is not None:
            return redirect(url_for("dashboard.jobs.show", job_id=exact))
        if not job_filter.is_tidy(request.args, wanted):
            return redirect(wanted.address(INDEX))
    page = job_list.load(wanted, INDEX)
    clients = choices.clients()
    shared = {
        "page": page,
        "wanted": wanted,
        "clients": clients,
        "actions": job_list.actions(wanted.search.statuses),
        "host_of": known_values.host_of,
    }
    if is_fragment_request():
        return render_template("jobs/_list.html", **shared)
    engine = punctual().engine
    return render_template(
        "jobs/index.html",
        **shared,
        chips=job_filter.chips(wanted, INDEX, clients),
        statuses=STATUSES,
        spans=job_filter.SPANS,
        local_value=job_filter.local_value,
        types=known_values.types(engine),
        hosts=[known_values.shown_host(host) for host in known_values.hosts(engine)],
        error_classes=known_values.error_classes(engine),
    )


def _exactly_one(wanted: job_filter.Filter) -> UUID | None:
    if set(wanted.args) != {"q"} or len(wanted.value("q")) not in (32, 36):
        return None
    try:
        job_id = UUID(wanted.value("q"))
    except ValueError:
        return None
    return job_id if queries.get_job(punctual().engine, None, job_id) else None


bp.add_url_rule("/new", view_func=job_submit.new, methods=["GET", "POST"])
bp.add_url_rule("/new/planned-delays", view_func=planned_delays.planned_delays)
bp.add_url_rule("/bulk", "bulk", view_func=job_bulk.ask)
bp.add_url_rule("/bulk", "bulk_change", view_func=job_bulk.change, methods=["POST"])
bp.add_url_rule("/bulk/<int:operation_id>", "bulk_progress", view_func=bulk_progress.show)
bp.add_url_rule("/bulk/<int:operation_id>/stop", "bulk_stop", view_func=bulk_progress.stop, methods=["POST"])
bp.add_url_rule("/<uuid:job_id>", view_func=job.show)
bp.add_url_rule("/<uuid:job_id>/payload", view_func=job.payload)
bp.add_url_rule("/<uuid:job_id>/edit", view_func=job_edit.edit, methods=["GET", "POST"])
bp.add_url_rule("/<uuid:job_id>/run-now", view_func=job_actions.run_now, methods=["POST"])
for _view in (job_actions.retry, job_actions.cancel, job_actions.stop, job_actions.delete):
    bp.add_url_rule(f"/<uuid:job_id>/{_view.__name__}", view_func=_view, methods=["POST"])
bp.url_value_preprocessor(form_room.make_room)
