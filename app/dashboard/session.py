"""Signing in and out, and the user's own account: password, sign out everywhere, theme."""

from __future__ import annotations

import secrets

import structlog
from flask import Blueprint, flash, make_response, redirect, render_template, request, session, url_for
from flask.typing import ResponseReturnValue
from flask_login import current_user, login_user, logout_user
from flask_wtf import FlaskForm
from wtforms import HiddenField, PasswordField, StringField
from wtforms.validators import DataRequired, EqualTo, Length

from app import sessions, users
from app.auth import request_address
from app.current import punctual
from app.dashboard import sign_in_throttle
from app.dashboard.cookies import is_behind_tls
from app.dashboard.formats import duration
from app.dashboard.local_path import local_path
from app.dashboard.roles import open_to_anybody, requires
from app.dashboard.signed_in import SignedIn
from app.dashboard.viewer import COOKIE_SECONDS, THEME_COOKIE, THEMES
from app.passwords import MAX_LENGTH, MIN_LENGTH, PasswordRefused
from app.users import Person

logger = structlog.get_logger(__name__)
bp = Blueprint("session", __name__)

WRONG = "The name or the password is wrong."
OVERVIEW = "dashboard.overview.index"


class SignInForm(FlaskForm):  # type: ignore[misc]
    name = StringField("User name", [DataRequired("Enter your user name."), Length(max=MAX_LENGTH)])
    password = PasswordField("Password", [DataRequired("Enter your password."), Length(max=MAX_LENGTH)])
    next = HiddenField()


class PasswordForm(FlaskForm):  # type: ignore[misc]
    current = PasswordField("Current password", [DataRequired("Enter your current password.")])
    password = PasswordField(
        "New password",
        [DataRequired("Enter a new password.")],
        description=f"{MIN_LENGTH} characters or more. A few words in a row are good.",
    )
    repeated = PasswordField(
        "New password again",
        [DataRequired("Enter the new password again."), EqualTo("password", "The two new passwords differ.")],
    )


@bp.route("/sign-in", methods=["GET", "POST"])
@open_to_anybody
def sign_in() -> ResponseReturnValue:
    target = local_path(request.values.get("next"), url_for(OVERVIEW))
    if current_user.is_authenticated:
        return redirect(target)
    form = SignInForm()
    if not form.validate_on_submit():
        if request.method == "GET":
            form.next.data = target
        return _sign_in_page(form, 200 if request.method == "GET" else 422)
    name, address = form.name.data.strip(), request_address()
    if seconds := sign_in_throttle.wait_seconds(punctual(), name, address):
        logger.warning("sign_in_throttled", address=address)
        message = f"Too many sign-ins failed. Wait {duration(float(seconds))}, then try again."
        return _refused(form, message, 429, {"Retry-After": str(seconds)})
    person = users.sign_in(punctual().engine, name, form.password.data)
    if person is None:
        logger.warning("sign_in_failed", address=address)
        return _refused(form, WRONG, 401)
    sign_in_throttle.succeeded(punctual(), name, address)
    _begin(person)
    return redirect(target)


@bp.post("/sign-out")
@requires("viewer")
def sign_out() -> ResponseReturnValue:
    sessions.end(punctual().engine, current_user.person, current_user.ticket, request_address())
    return _leave("You are signed out.")


@bp.post("/account/sign-out-everywhere")
@requires("viewer")
def sign_out_everywhere() -> ResponseReturnValue:
    sessions.end_all(punctual().engine, current_user.person, request_address())
    return _leave("You are signed out on every device.")


@bp.route("/account", methods=["GET", "POST"])
@requires("viewer")
def account() -> ResponseReturnValue:
    """The user's own page. A new password ends every session; this browser gets a new one."""
    form = PasswordForm()
    if not form.validate_on_submit():
        return render_template("session/account.html", form=form), 200 if request.method == "GET" else 422
    person: Person = current_user.person
    changed = _change_password(person, form)
    if changed is None:
        return render_template("session/account.html", form=form), 422
    sessions.note_new_password(punctual().engine, changed, request_address())
    _begin(changed)
    flash("Your password is changed. Every other session of yours has ended.", "success")
    return redirect(url_for(".account"))


@bp.post("/theme")
@open_to_anybody
def set_theme() -> ResponseReturnValue:
    """Keeps the theme in a cookie and goes back; static/theme.js does the same without leaving the page."""
    wanted = request.form.get("theme", "")
    response = make_response(redirect(local_path(request.form.get("next"), url_for(OVERVIEW))))
    response.set_cookie(
        THEME_COOKIE,
        wanted if wanted in THEMES else "auto",
        max_age=COOKIE_SECONDS,
        samesite="Lax",
        secure=is_behind_tls(),
    )
    return response


def _sign_in_page(form: SignInForm, status: int) -> ResponseReturnValue:
    has_users = bool(users.list_users(punctual().engine))
    return render_template("session/sign_in.html", form=form, has_users=has_users), status


def _refused(form: SignInForm, message: str, status: int, headers: dict[str, str] | None = None) -> ResponseReturnValue:
    form.password.data = ""
    page = render_template("session/sign_in.html", form=form, has_users=True, refusal=message)
    return page, status, headers or {}


def _begin(person: Person) -> None:
    """A new session: nothing of what the cookie held before is kept."""
    ticket = sessions.start(punctual().engine, person, request_address())
    session.clear()
    login_user(SignedIn(person, ticket))
    session.permanent = True
    # The token of forms is new as well: one that a stranger planted before the sign-in is worth nothing.
    session["csrf_token"] = secrets.token_hex(20)


def _leave(message: str) -> ResponseReturnValue:
    logout_user()
    session.clear()
    flash(message, "success")
    return redirect(url_for(".sign_in"))


def _change_password(person: Person, form: PasswordForm) -> Person | None:
    """The user with the new password, or None with the reason on the form. Guessing the current one is throttled as a sign-in."""
    engine, address = punctual().engine, request_address()
    if seconds := sign_in_throttle.wait_seconds(punctual(), person.name, address):
        form.current.errors = [f"Too many attempts failed. Wait {duration(float(seconds))}, then try again."]
        return None
    if users.sign_in(engine, person.name, form.current.data) is None:
        form.current.errors = ["This is not your current password."]
        return None
    sign_in_throttle.succeeded(punctual(), person.name, address)
    try:
        return users.set_password(engine, person.name, form.password.data)
    except PasswordRefused as error:
        form.password.errors = [str(error)]
        return None
