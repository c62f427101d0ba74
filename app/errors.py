"""The errors a caller of the API can be told, and the one JSON shape they are told in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from flask import Flask, Response, json, request
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from werkzeug.exceptions import HTTPException

from app.database import is_passing

logger = structlog.get_logger(__name__)

API_PREFIX = "/v1"
CODES = {
    400: "invalid_request",
    401: "unauthorized",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    413: "payload_too_large",
    415: "unsupported_media_type",
    429: "rate_limited",
    503: "unavailable",
}
UNAVAILABLE = (
    "The database cannot be reached at the moment. Send the request again shortly; "
    "with an idempotency key that never makes a second job."
)
INTERNAL = "Something went wrong on our side. It has been logged; send the request again later."


class ApiError(Exception):
    """An answer other than success. `details` are {"field", "message"} rows; `headers` go out with the answer."""

    status = 500
    code = "internal_error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        details: Sequence[Mapping[str, str]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.details = details
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """`{"code", "message", "details"?}`"""
        body: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.details:
            body["details"] = [dict(detail) for detail in self.details]
        return body


class InvalidRequest(ApiError):
    status, code = 400, CODES[400]


class Unauthorized(ApiError):
    status, code = 401, CODES[401]


class NotFound(ApiError):
    status, code = 404, CODES[404]


class Conflict(ApiError):
    status, code = 409, CODES[409]


class TooLarge(ApiError):
    status, code = 413, CODES[413]


class UnsupportedMediaType(ApiError):
    status, code = 415, CODES[415]


class RateLimited(ApiError):
    status, code = 429, CODES[429]


class Unavailable(ApiError):
    status, code = 503, CODES[503]


def invalid(field: str, message: str) -> InvalidRequest:
    """The refusal of one field; the answer names it in its message and in its details."""
    return InvalidRequest(f"{field}: {message}", details=[{"field": field, "message": message}])


def respond(error: ApiError) -> Response:
    """`{"error": {"code", "message", "details"?}}`, with the error's status and headers."""
    answer = Response(json.dumps({"error": error.body()}), error.status, error.headers, mimetype="application/json")
    if error.status == 401:
        answer.headers.setdefault("WWW-Authenticate", "Bearer")
    return answer


def register(app: Flask) -> None:
    """Gives every error its shape: all of them under /v1, and ApiError wherever it is raised."""
    app.register_error_handler(ApiError, respond)
    app.register_error_handler(HTTPException, _on_http_exception)
    app.register_error_handler(SQLAlchemyError, _on_database_error)
    app.register_error_handler(Exception, _on_unexpected)


def is_api_request() -> bool:
    """Whether the request is a program's. Pages answer with pages."""
    return request.path == API_PREFIX or request.path.startswith(f"{API_PREFIX}/")


def _on_http_exception(error: HTTPException) -> Response | HTTPException:
    if not is_api_request() or error.code is None or error.code < 400:
        return error
    status = error.code
    shaped = ApiError(_message(error), code=CODES.get(status, "invalid_request" if status < 500 else "internal_error"))
    shaped.status = status
    # Allow with 405, for one.
    shaped.headers = {
        name: value for name, value in error.get_headers() if name.lower() not in ("content-type", "content-length")
    }
    return respond(shaped)


def _message(error: HTTPException) -> str:
    if error.code == 404:
        return f"There is nothing at {request.path[:200]}. /openapi.json lists every address."
    if error.code == 405:
        allowed = ", ".join(sorted(getattr(error, "valid_methods", None) or ()))
        return f"{request.method} is not possible here" + (f"; this address takes {allowed}." if allowed else ".")
    return error.description or error.name


def _on_database_error(error: SQLAlchemyError) -> Response | HTTPException:
    if isinstance(error, PoolTimeout) or is_passing(error):
        logger.warning(
            "database_unavailable", path=request.path, error=str(getattr(error, "orig", None) or error)[:500]
        )
        return respond(Unavailable(UNAVAILABLE, headers={"Retry-After": "1"}))
    return _on_unexpected(error)


def _on_unexpected(error: Exception) -> Response:
    """The edge of a request: whatever went wrong is logged with its traceback, and told without it."""
    logger.exception("request_failed", method=request.method, path=request.path, exc_info=error)
    if is_api_request():
        return respond(ApiError(INTERNAL))
    return Response("Something went wrong. It has been logged; try again later.\n", 500, mimetype="text/plain")
