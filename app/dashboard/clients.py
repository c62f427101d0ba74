"""Clients and their API keys, for admins: a key or a secret is shown once, on the page that made it."""

from __future__ import annotations

from flask import Blueprint, abort, flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_login import current_user
from sqlalchemy import Connection

from app import audit, clients
from app.api_keys import KeyInvalid, create_api_key, list_api_keys, revoke_api_key
from app.auth import request_address
from app.clients import ClientInvalid
from app.current import punctual, settings
from app.dashboard.roles import requires
from app.database import transaction

bp = Blueprint("clients", __name__, url_prefix="/clients")
INDEX = "dashboard.clients.index"


@bp.get("/")
@requires("admin")
def index() -> ResponseReturnValue:
    return _page()


@bp.post("/keys")
@requires("admin")
def create_key() -> ResponseReturnValue:
    """Makes a key, and its client when that is new."""
    try:
        made = create_api_key(
            punctual().engine,
            request.form.get("client", ""),
            label=request.form.get("label"),
            expires_in_days=_number("expires_in_days", "days"),
        )
    except (KeyInvalid, ClientInvalid) as error:
        return _page(refusal=str(error), status=422)
    with transaction(punctual().engine) as conn:
        _note(conn, made.client_id, "api_key.create", "api_key", made.prefix)
    return _page(shown=("API key", made.key, "It is shown this once: only its SHA-256 is kept."))


@bp.post("/keys/<prefix>/revoke")
@requires("admin")
def revoke_key(prefix: str) -> ResponseReturnValue:
    outcome = revoke_api_key(punctual().engine, prefix)
    if outcome == "missing":
        abort(404)
    if outcome == "revoked":
        with transaction(punctual().engine) as conn:
            _note(conn, None, "api_key.revoke", "api_key", prefix)
    flash(f"The key {prefix}… is revoked.", "success")
    return redirect(url_for(INDEX))


@bp.post("/<int:client_id>/quota")
@requires("admin")
def set_quota(client_id: int) -> ResponseReturnValue:
    try:
        limit = _number("rate_limit", "requests a minute")
        with transaction(punctual().engine) as conn:
            clients.set_rate_limit(conn, client_id, limit)
            _note(conn, client_id, "client.quota", "client", str(client_id), {"rate_limit_per_minute": limit})
    except (KeyInvalid, ClientInvalid) as error:
        return _page(refusal=str(error), status=422)
    flash("The quota is changed.", "success")
    return redirect(url_for(INDEX))


@bp.post("/<int:client_id>/rotate-secret")
@requires("admin")
def rotate_secret(client_id: int) -> ResponseReturnValue:
    """A new signing secret; callbacks carry both signatures for the grace time."""
    try:
        hours = _number("grace_hours", "hours")
        with transaction(punctual().engine) as conn:
            secret = clients.rotate_secret(conn, client_id, 24 if hours is None else hours)
            if secret is None:
                abort(404)
            _note(conn, client_id, "client.rotate_secret", "client", str(client_id), {"grace_hours": hours})
    except (KeyInvalid, ClientInvalid) as error:
        return _page(refusal=str(error), status=422)
    return _page(shown=("Signing secret", secret, "Give it to the receiver now: it is not shown on any page again."))


def _page(
    refusal: str | None = None, shown: tuple[str, str, str] | None = None, status: int = 200
) -> ResponseReturnValue:
    engine = punctual().engine
    with transaction(engine) as conn:
        found = clients.list_clients(conn)
    keys: dict[str, list[object]] = {}
    for key in list_api_keys(engine):
        keys.setdefault(key["client_name"], []).append(key)
    page = render_template(
        "clients/index.html",
        clients=found,
        keys=keys,
        refusal=refusal,
        shown=shown,
        default_limit=settings().rate_limit_per_minute,
    )
    return page, status


def _number(name: str, unit: str) -> int | None:
    """A whole number from the form, None when it was left empty. Raises KeyInvalid."""
    value = request.form.get(name, "").strip()
    if not value:
        return None
    if not (value.isascii() and value.isdigit() and len(value) <= 9):
        raise KeyInvalid(f"{value[:20]!r} is no whole number of {unit}.")
    return int(value)


def _note(
    conn: Connection,
    client_id: int | None,
    action: str,
    kind: str,
    target: str,
    detail: dict[str, object] | None = None,
) -> None:
    audit.record(conn, "user", current_user.name, client_id, action, kind, target, detail, request_address())
