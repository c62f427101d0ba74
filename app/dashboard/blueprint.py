"""The dashboard's blueprint, and the one guard that every page of it passes: signed in, and of a role that is enough."""

from __future__ import annotations

import structlog
from flask import Blueprint, abort, current_app, flash, redirect, request, url_for
from flask.typing import ResponseReturnValue
from flask_login import current_user

from app.dashboard.roles import ANYBODY, READING, is_enough, required_role

logger = structlog.get_logger(__name__)

# Each page is a blueprint of its own below this one: its views are `dashboard.<page>.<view>`.
bp = Blueprint("dashboard", __name__)
# What static/live.js sends along: an answer to it is a fragment, and a sign-in page would not be one.
FRAGMENT_HEADER = "X-Fragment"


@bp.before_request
def guard() -> ResponseReturnValue | None:
    """Sends strangers to the sign-in page, and answers 403 to who may not do this."""
    required = required_role(current_app.view_functions[str(request.endpoint)], request.method)
    if required == ANYBODY:
        return None
    if not current_user.is_authenticated:
        return _ask_to_sign_in()
    if required is None:
        logger.error("route_without_role", endpoint=request.endpoint, method=request.method)
        abort(403)
    if not is_enough(current_user.role, required):
        abort(403)
    return None


def is_fragment_request() -> bool:
    """Whether the page itself asks, to refresh a part of it."""
    return FRAGMENT_HEADER in request.headers


def _ask_to_sign_in() -> ResponseReturnValue:
    if is_fragment_request():
        return "", 401
    if request.method not in READING:
        flash("Your session has ended: sign in and do it again. Nothing was changed.", "warning")
        return redirect(url_for("dashboard.session.sign_in"))
    here = request.full_path.rstrip("?")
    return redirect(url_for("dashboard.session.sign_in", next=None if here == "/" else here))
