"""One line in the log for each request: what, how it went, how long it took; never a key, a query or a body."""

from __future__ import annotations

import logging
import re
import time
import uuid

import structlog
from flask import Flask, Response, g, request
from structlog.contextvars import bind_contextvars, clear_contextvars

logger = structlog.get_logger(__name__)

# A request id that came from a proxy is kept when it is plain enough to be logged and sent back.
REQUEST_ID_FORM = re.compile(r"[A-Za-z0-9._-]{1,64}")
# Asked every few seconds by machines: seen with LOG_LEVEL=debug only, unless they fail.
QUIET_ENDPOINTS = {"health.healthz", "metrics.metrics", "static"}


def register(app: Flask) -> None:
    """Binds a request id to all that is logged while a request is handled, sends it back, and logs the request."""
    app.before_request(_begin)
    app.after_request(_end)


def _begin() -> None:
    # A connection that is kept open brings many requests through one context.
    clear_contextvars()
    given = request.headers.get("X-Request-ID", "")
    g.request_id = given if REQUEST_ID_FORM.fullmatch(given) else uuid.uuid4().hex
    g.request_began_at = time.perf_counter()
    bind_contextvars(request_id=g.request_id, **_named_in_path())


def _named_in_path() -> dict[str, str]:
    """The job that an address is about, so that its id is on every line of the request."""
    job_id = (request.view_args or {}).get("job_id")
    return {} if job_id is None else {"job_id": str(job_id)[:64]}


def _end(response: Response) -> Response:
    if "request_id" not in g:
        return response
    response.headers["X-Request-ID"] = g.request_id
    is_quiet = request.endpoint in QUIET_ENDPOINTS and response.status_code < 400
    logger.log(
        _level(is_quiet, response.status_code),
        "request",
        method=request.method[:16],
        # The rule, not the path: paths are of any number and length, and may hold what a stranger put there.
        rule=request.url_rule.rule if request.url_rule else None,
        status=response.status_code,
        ms=round((time.perf_counter() - g.request_began_at) * 1000, 1),
    )
    return response


def _level(is_quiet: bool, status: int) -> int:
    if is_quiet:
        return logging.DEBUG
    return logging.INFO if status < 500 else logging.WARNING
