"""Errors as pages for people. Programs' addresses keep the JSON that app.errors gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Flask, Response, render_template, request
from flask_wtf.csrf import CSRFError
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from app.dashboard.blueprint import is_fragment_request
from app.errors import is_api_request

PROGRAMS = ("/healthz", "/metrics", "/openapi.json", "/openapi", "/docs", "/static", "/bootstrap")
WORDS = {
    400: ("This request cannot be used", "Go back, reload the page and try again."),
    403: ("You may not do this", "Your role does not allow it. Ask an admin of this installation for another one."),
    404: ("There is nothing here", "The address is mistyped, or what it names has been deleted."),
    405: ("This address works differently", "It was opened in a way it does not take. Start from the overview."),
    409: ("Somebody got there first", "What you saw has changed since. Go back and reload the page."),
    413: ("This is too large", "A request may have 1 MiB. Shorten what you send."),
    429: ("Too many requests", "Wait a moment, then try again."),
    500: ("Something went wrong", "It has been logged with the time below. Try again later."),
    503: ("The database cannot be reached", "Jobs that were accepted are safe. This page works again when it is back."),
}
STALE = (
    "This form is too old",
    "Your session has changed since the page was loaded. Go back, reload it and try again.",
)
Handler = Callable[[Any], Any]


def register(app: Flask) -> None:
    """Puts pages in front of the handlers registered so far: register those of app.errors first."""
    earlier = app.error_handler_spec[None][None]
    for kind in (HTTPException, SQLAlchemyError, Exception):
        app.register_error_handler(kind, _as_page(earlier.get(kind, lambda error: error)))


def is_page_request() -> bool:
    """Whether a person's browser asked for a page."""
    is_programs = any(request.path == path or request.path.startswith(f"{path}/") for path in PROGRAMS)
    return not (is_api_request() or is_programs)


def _as_page(earlier: Handler) -> Handler:
    def handle(error: Exception) -> Any:
        # It logs what has to be logged, and knows the status.
        answer = earlier(error)
        status = _status(answer)
        if not is_page_request() or status < 400:
            return answer
        if is_fragment_request():
            return Response(status=status)
        title, advice = (
            STALE if isinstance(error, CSRFError) else WORDS.get(status, WORDS[500 if status > 499 else 400])
        )
        page = Response(render_template("error.html", status=status, title=title, advice=advice), status)
        if isinstance(error, MethodNotAllowed):
            page.allow.update(error.valid_methods or ())
        return page

    return handle


def _status(answer: Any) -> int:
    if isinstance(answer, HTTPException):
        return answer.code or 500
    return answer.status_code if isinstance(answer, Response) else 500
