"""The contract holds: whatever it allows is taken, whatever it forbids is refused, and every answer is as it says."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import redis
import schemathesis
from flask import Flask, current_app
from hypothesis import HealthCheck, settings
from schemathesis.checks import CheckContext
from schemathesis.core import NOT_SET
from schemathesis.core.failures import Failure
from schemathesis.core.transport import Response
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from app.api.docs import document
from tests.api_calls import HOOK, ApiCalls

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

# What the contract allows and the API refuses all the same: rules that JSON Schema cannot say. (field, message)
UNSAYABLE = [
    # Which hosts may be called is decided by networks, names and a look-up.
    (r"(job_template\.)?(callback|on_success|on_failure)_url", r"The URL.*"),
    # Names of headers are tokens (the library drops propertyNames), the same in any case, and some are set by others.
    (r"(job_template\.)?headers", r"must name each header once.*|must leave out .*|must have names of letters.*"),
    (r"(job_template\.)?success_statuses", r"must be ranges that begin with the smaller status"),
    # A cron expression has a grammar and must name a time that comes; zones are those of the locked tzdata.
    (r"cron_expression", r".*"),
    (r"timezone", r"Unknown time zone.*|.*time zone.*"),
    # RFC 3339 allows instants that UTC, or a calendar without leap seconds, cannot hold.
    (r".*", r"lies outside the years.*|names a day or a time of day that does not exist.*"),
    (r"expires_at", r"it must be later than run_at.*"),
    # Only a retry gives jobs a time to spread.
    (r"spread_seconds", r"only a retry can be spread.*"),
    # How far an offset goes depends on what stands beside it.
    (r"offset", r"it is 10,000 at most.*"),
    # Two parts of one request, or a request and what is stored, must agree.
    (r"payload", r"is required, or a body: .*"),
    (r"idempotency_key", r"it differs from the Idempotency-Key header.*"),
    (r"name", r"it differs from the name in the address.*"),
    (r"ends_at", r"it must be later than starts_at.*|the schedule names no time from now until then.*"),
    (r"from|to", r".*"),
    # Length counts in Unicode's composed form, which can be longer.
    (r"name", r"must have at most 128 characters in Unicode's composed form"),
]


# A batch answers 200 whatever its items are, and a filter takes a number as text too, as in an address.
OWN_WAYS = dict.fromkeys(("/v1/jobs/batch", "/v1/jobs/bulk"), (negative_data_rejection,))


def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """The application of the running test: operations are collected before there is one."""
    return current_app.wsgi_app(environ, start_response)


contract = schemathesis.openapi.from_dict(document())
contract.app = application
contract.config.generation.update(max_examples=10, deterministic=True, with_security_parameters=False)


def is_accepted_unless_unsayable(ctx: CheckContext, response: Response, case: schemathesis.Case[Any]) -> bool | None:
    """In place of positive_data_acceptance, which takes no 400 at all, or all of them."""
    if response.status_code != 400:
        return positive_data_acceptance(ctx, response, case)
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return None
    for detail in response.json()["error"].get("details", []):
        if not any(
            re.fullmatch(field, detail["field"]) and re.match(text, detail["message"]) for field, text in UNSAYABLE
        ):
            raise Failure(
                operation=case.operation.label,
                title="Refused what the contract allows",
                message=f"{detail['field']}: {detail['message']}",
            )
    return None


def made_usable(body: Any) -> Any:
    """With a URL and a schedule that can be used, so that a request reaches what lies behind those checks."""
    if not isinstance(body, dict):
        return body
    usable = {"callback_url": HOOK, "cron_expression": "*/5 * * * *", "timezone": "Europe/Berlin"}
    body = {name: usable.get(name, value) for name, value in body.items()}
    if isinstance(body.get("job_template"), dict):
        body["job_template"] = made_usable(body["job_template"])
    return body


def is_without_optional_body(case: schemathesis.Case[Any]) -> bool:
    """Whether the request leaves out a body that may be left out, which the library takes for a violation."""
    operation = document()["paths"][case.operation.path][case.operation.method]
    return case.body is NOT_SET and operation.get("requestBody", {}).get("required") is False


@contract.parametrize()
@settings(deadline=None, suppress_health_check=list(HealthCheck))
def test_the_contract_holds(case: schemathesis.Case[Any], app: Flask, api_key: str, redis_client: redis.Redis) -> None:
    # Some checks come with a bad key, and after twenty of these within a minute the answer is another.
    redis_client.flushdb()
    if case.meta is not None and case.meta.generation.mode.is_positive:
        case.body = made_usable(case.body)
        if "job_id" in (case.path_parameters or {}):
            # One that is there, so that a request reaches what lies behind the 404.
            case.path_parameters["job_id"] = ApiCalls(app.test_client(), api_key).submitted(delay_seconds=3600)
    case.call_and_validate(
        headers={"Authorization": f"Bearer {api_key}"},
        excluded_checks=[
            positive_data_acceptance,
            *OWN_WAYS.get(case.operation.path, ()),
            *([negative_data_rejection] if is_without_optional_body(case) else []),
        ],
        additional_checks=[is_accepted_unless_unsayable],
    )
