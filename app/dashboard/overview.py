"""The overview: did it run, what is late, what is next, who is alive."""

from __future__ import annotations

from datetime import timedelta

from flask import Blueprint, render_template, request

from app import operations_queries, overview
from app.cron import CronError, describe
from app.current import punctual
from app.dashboard.context import now
from app.dashboard.roles import requires
from app.database import autocommit

bp = Blueprint("overview", __name__)

PERIODS = {
    "hour": ("Last hour", timedelta(hours=1), timedelta(minutes=1)),
    "day": ("Last 24 hours", timedelta(hours=24), timedelta(minutes=15)),
}


@bp.get("/")
@requires("viewer")
def index() -> str:
    chosen = request.args.get("period", "hour")
    if chosen not in PERIODS:
        chosen = "hour"
    _, span, step = PERIODS[chosen]
    with autocommit(punctual().engine) as conn:
        return render_template(
            "overview/index.html",
            chosen=chosen,
            periods=[(name, words) for name, (words, _, _) in PERIODS.items()],
            period=overview.period(conn, now(), span, step),
            step=step,
            counts=overview.counts(conn),
            cap=overview.CAP,
            upcoming=overview.next_occurrences(conn),
            hosts=overview.failing_hosts(conn),
            processes=operations_queries.living(conn),
            in_words=in_words,
        )


def in_words(expression: str) -> str:
    """The schedule in plain language; the expression itself where that cannot be said."""
    try:
        return describe(expression)
    except CronError:
        return expression
