"""How far a change of many jobs is that runs in the background."""

from __future__ import annotations

from flask import abort, flash, redirect, render_template, url_for
from flask.typing import ResponseReturnValue

from app.current import punctual
from app.dashboard.blueprint import is_fragment_request
from app.dashboard.job_actions import by_me
from app.dashboard.roles import requires
from app.jobs import bulk_operations

LAST_ID = 2**63 - 1


@requires("viewer")
def show(operation_id: int) -> str:
    operation = None if operation_id > LAST_ID else bulk_operations.get(punctual().engine, None, operation_id)
    if operation is None:
        abort(404)
    template = "jobs/_bulk_progress.html" if is_fragment_request() else "jobs/bulk_progress.html"
    return render_template(template, operation=operation)


@requires("operator")
def stop(operation_id: int) -> ResponseReturnValue:
    """Ends it after the batch it is at."""
    if operation_id > LAST_ID:
        abort(404)
    if bulk_operations.stop(punctual().engine, operation_id, by_me()):
        flash("It is stopped. What was done stays done.", "info")
    return redirect(url_for("dashboard.jobs.bulk_progress", operation_id=operation_id))
