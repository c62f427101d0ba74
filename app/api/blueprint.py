"""The blueprint of /v1: every route on it is authenticated and counted, and documents itself from its models."""

from __future__ import annotations

from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.types import ResponseDict

from app.api.schemas import Error
from app.auth import authenticate
from app.errors import API_PREFIX
from app.rate_limit import add_quota_headers, check_quota

BEARER = "bearer"


def error_answers(*statuses: int) -> ResponseDict:
    """The answers of these statuses, for the document; what any route can answer is there without asking."""
    return {str(status): Error for status in statuses}


bp = APIBlueprint(
    "api",
    __name__,
    url_prefix=API_PREFIX,
    abp_security=[{BEARER: []}],
    abp_responses={"400": Error, "401": Error, "429": Error, "503": Error},
    operation_id_callback=lambda *, name, path, method: name,
)
bp.before_request(authenticate)
bp.before_request(check_quota)
bp.after_request(add_quota_headers)
