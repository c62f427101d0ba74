"""Every attempt across jobs, newest or slowest first."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from flask import Blueprint, render_template, request, url_for

from app import operations_queries
from app.current import punctual
from app.dashboard.roles import requires
from app.database import autocommit
from app.instants import format_instant, parse_instant
from app.models.jobs import EXECUTION_STATUSES
from app.operations_queries import NEWEST_ATTEMPTS, PAGE, AttemptFilter

bp = Blueprint("executions", __name__, url_prefix="/executions")
INDEX = "dashboard.executions.index"


@bp.get("/")
@requires("viewer")
def index() -> str:
    wanted = _read()
    with autocommit(punctual().engine) as conn:
        found = operations_queries.attempts(conn, wanted)
    shown = found[:PAGE]
    kept: dict[str, Any] = {
        name: value for name, value in request.args.items() if name in ("status", "host", "code", "order") and value
    }
    older = None
    if len(found) > PAGE and not wanted.is_slowest_first:
        cursor = f"{format_instant(shown[-1]['finished_at'])}_{shown[-1]['job_id']}"
        older = url_for(INDEX, **kept, before=cursor)
    return render_template(
        "executions/index.html",
        attempts=shown,
        wanted=wanted,
        statuses=EXECUTION_STATUSES,
        newest=url_for(INDEX, **kept) if wanted.before else None,
        older=older,
        looked_at=NEWEST_ATTEMPTS if wanted.is_narrow else None,
    )


def _read() -> AttemptFilter:
    """The filter of the address; what cannot be read is left out."""
    status = request.args.get("status", "")
    code = request.args.get("code", "")
    return AttemptFilter(
        status=status if status in EXECUTION_STATUSES else None,
        host=request.args.get("host", "").strip().replace("\0", "")[:300] or None,
        code=int(code) if code.isascii() and code.isdigit() and len(code) == 3 else None,
        is_slowest_first=request.args.get("order") == "slowest",
        before=_cursor(request.args.get("before", "")),
    )


def _cursor(value: str) -> tuple[datetime, str] | None:
    at, _, job_id = value.partition("_")
    try:
        return parse_instant(at), str(UUID(job_id))
    except ValueError:
        return None
