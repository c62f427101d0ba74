"""The audit log: who did what, when, to what."""

from __future__ import annotations

from flask import Blueprint, render_template, request, url_for

from app import operations_queries
from app.current import punctual
from app.dashboard.roles import requires
from app.database import autocommit
from app.operations_queries import LAST_ID, PAGE

bp = Blueprint("audit", __name__, url_prefix="/audit")
INDEX = "dashboard.audit.index"


@bp.get("/")
@requires("viewer")
def index() -> str:
    q = request.args.get("q", "").strip().replace("\0", "")[:128] or None
    before = request.args.get("before", "")
    place = int(before) if before.isascii() and before.isdigit() and int(before) <= LAST_ID else None
    with autocommit(punctual().engine) as conn:
        found = operations_queries.audit_entries(conn, q, place)
    return render_template(
        "audit/index.html",
        entries=found[:PAGE],
        q=q or "",
        newest=url_for(INDEX, q=q) if place else None,
        older=url_for(INDEX, q=q, before=found[PAGE - 1]["id"]) if len(found) > PAGE else None,
    )
