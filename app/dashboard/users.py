"""Who may sign in, for admins: create, change the role, disable, give a new password."""

from __future__ import annotations

from flask import Blueprint, abort, flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_login import current_user

from app import audit, users
from app.auth import request_address
from app.current import punctual
from app.dashboard.roles import requires
from app.database import autocommit
from app.models import ROLES
from app.passwords import generate_password
from app.users import Person, UserInvalid

bp = Blueprint("users", __name__, url_prefix="/users")
INDEX = "dashboard.users.index"
ONESELF = "Ask another admin to change your own account."


@bp.get("/")
@requires("admin")
def index() -> ResponseReturnValue:
    return _page()


@bp.post("/")
@requires("admin")
def create() -> ResponseReturnValue:
    """Makes a user with a generated password, shown once."""
    password = generate_password()
    try:
        made = users.create_user(
            punctual().engine, request.form.get("name", "").strip(), request.form.get("role", ""), password
        )
    except UserInvalid as error:
        return _page(refusal=str(error), status=422)
    _note("user.create", made, {"role": made.role})
    return _page(shown=(made.name, password))


@bp.post("/<int:user_id>/role")
@requires("admin")
def set_role(user_id: int) -> ResponseReturnValue:
    try:
        person = users.set_role(punctual().engine, _other(user_id), request.form.get("role", ""))
    except UserInvalid as error:
        return _page(refusal=str(error), status=422)
    return _done(person, "user.role", f"is now {person.role}" if person else "")


@bp.post("/<int:user_id>/disable")
@requires("admin")
def disable(user_id: int) -> ResponseReturnValue:
    try:
        person = users.disable_by_id(punctual().engine, _other(user_id))
    except UserInvalid as error:
        return _page(refusal=str(error), status=422)
    return _done(person, "user.disable", "is disabled and signed out")


@bp.post("/<int:user_id>/enable")
@requires("admin")
def enable(user_id: int) -> ResponseReturnValue:
    known = users.find_user(punctual().engine, user_id)
    person = users.enable_user(punctual().engine, known.name) if known else None
    return _done(person, "user.enable", "may sign in again")


@bp.post("/<int:user_id>/password")
@requires("admin")
def new_password(user_id: int) -> ResponseReturnValue:
    """A generated password, shown once; it ends the user's sessions."""
    try:
        known = users.find_user(punctual().engine, _other(user_id))
    except UserInvalid as error:
        return _page(refusal=str(error), status=422)
    if known is None:
        abort(404)
    password = generate_password()
    users.set_password(punctual().engine, known.name, password)
    _note("user.password", known)
    return _page(shown=(known.name, password))


def _other(user_id: int) -> int:
    """The id, unless it is one's own. Raises UserInvalid: nobody locks themselves out."""
    if user_id == current_user.person.id:
        raise UserInvalid(ONESELF)
    return user_id


def _done(person: Person | None, action: str, words: str) -> ResponseReturnValue:
    if person is None:
        flash("Nothing was changed: the user is gone, or stood like that already.", "warning")
    else:
        _note(action, person, {"role": person.role})
        flash(f"{person.name} {words}.", "success")
    return redirect(url_for(INDEX))


def _page(refusal: str | None = None, shown: tuple[str, str] | None = None, status: int = 200) -> ResponseReturnValue:
    people = users.list_users(punctual().engine)
    return render_template("users/index.html", people=people, roles=ROLES, refusal=refusal, shown=shown), status


def _note(action: str, person: Person, detail: dict[str, object] | None = None) -> None:
    with autocommit(punctual().engine) as conn:
        audit.record(conn, "user", current_user.name, None, action, "user", person.name, detail, request_address())
