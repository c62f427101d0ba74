"""Workers and schedulers: who is alive, who leads, what each is doing."""

from __future__ import annotations

from flask import Blueprint, render_template

from app import operations_queries
from app.current import punctual
from app.dashboard.roles import requires
from app.database import autocommit

bp = Blueprint("processes", __name__, url_prefix="/processes")


@bp.get("/")
@requires("viewer")
def index() -> str:
    with autocommit(punctual().engine) as conn:
        return render_template(
            "processes/index.html",
            processes=operations_queries.processes(conn),
            per_minute=operations_queries.attempts_per_minute(conn),
        )
