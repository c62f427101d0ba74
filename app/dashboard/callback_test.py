"""The button that tries a call before it is saved: one request, now, and what came of it; nothing is stored."""

from __future__ import annotations

from collections.abc import Callable

from flask import render_template, request
from flask.typing import ResponseReturnValue

from app.attempts import Answer
from app.callback_url import CallbackUrlRefused, parse
from app.current import punctual, settings
from app.dashboard import callback_fields
from app.dashboard.blueprint import is_fragment_request
from app.dashboard.callback_form import CallbackForm, Stored
from app.dashboard.form_errors import FormRefused
from app.errors import RateLimited
from app.trials import make_trial


def is_asked_for() -> bool:
    return "test" in request.form


def answer(
    form: CallbackForm, before: Stored | None, client_id: int | None, page: Callable[[], ResponseReturnValue]
) -> ResponseReturnValue:
    """The page again with what came of it, or that part alone where a script asks.

    `before` is what the form was filled from; `client_id` says whose secret signs the request, and None that none does.
    """
    form.was_tested = True
    try:
        form.tested = _try(form, before, client_id)
    except FormRefused as refused:
        form.refuse(refused.errors, "callback_url")
    except RateLimited as busy:
        form.test_problem = busy.message
    return render_template("callback/_test.html", form=form) if is_fragment_request() else page()


def _try(form: CallbackForm, before: Stored | None, client_id: int | None) -> Answer:
    fields = callback_fields.read_trial(form.texts(), before)
    try:
        # Not looked up here: the call looks the name up itself, and says what it found.
        target = parse(fields.callback_url, settings().allowed_callback_cidrs)
    except CallbackUrlRefused as refused:
        raise FormRefused({"callback_url": str(refused)}) from None
    return make_trial(punctual().engine, settings(), client_id, fields.request(target))
