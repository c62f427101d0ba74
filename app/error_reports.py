"""Unforeseen errors to Sentry, when SENTRY_DSN is set: where in the code, never what was sent. The package is loaded only then."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import structlog

from app.config import ConfigurationError, Settings
from app.version import VERSION

FLUSH_SECONDS = 2
# Never its address, query, headers, cookies or body.
KEPT_OF_A_REQUEST = ("method",)


def start_error_reports(settings: Settings, program: str) -> None:
    """Reports what is logged as an error, once logging is configured. Raises ConfigurationError when the package is not there."""
    if settings.sentry_dsn is None:
        return
    try:
        sentry: Any = import_module("sentry_sdk")
    except ImportError as error:
        raise ConfigurationError(
            "SENTRY_DSN is set, but sentry-sdk is not installed: install it, or leave SENTRY_DSN out"
        ) from error
    try:
        sentry.init(
            dsn=settings.sentry_dsn,
            environment=settings.environment,
            release=f"punctual@{VERSION}",
            send_default_pii=False,
            include_local_variables=False,
            max_request_body_size="never",
            max_breadcrumbs=0,
            auto_enabling_integrations=False,
            disabled_integrations=[import_module("sentry_sdk.integrations.logging").LoggingIntegration()],
            traces_sample_rate=None,
            trace_propagation_targets=[],
            send_client_reports=False,
            auto_session_tracking=False,
            shutdown_timeout=FLUSH_SECONDS,
            before_send=scrubbed,
        )
    except ValueError as error:
        raise ConfigurationError("SENTRY_DSN cannot be used: it takes https://key@host/project") from error
    sentry.get_global_scope().set_tag("program", program)
    structlog.configure(processors=[_report, *structlog.get_config()["processors"]])


def scrubbed(event: dict[str, Any], _hint: object = None) -> dict[str, Any]:
    """The event without what a client or a person sent, and without texts of errors, which may quote it."""
    for name in ("user", "extra", "breadcrumbs", "modules", "server_name"):
        event.pop(name, None)
    if "request" in event:
        event["request"] = {name: event["request"][name] for name in KEPT_OF_A_REQUEST if name in event["request"]}
    contexts = event.get("contexts", {})
    event["contexts"] = {name: contexts[name] for name in ("runtime", "trace") if name in contexts}
    for error in event.get("exception", {}).get("values", []):
        error["value"] = ""
        for frame in error.get("stacktrace", {}).get("frames", []):
            frame.pop("vars", None)
    return event


def _report(_logger: object, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Reports what is logged as an error: by the event's name, with the place in the code where there is an exception."""
    if method in ("error", "exception", "critical"):
        sentry: Any = import_module("sentry_sdk")
        with sentry.new_scope() as scope:
            scope.set_tag("event", event["event"])
            raised = event.get("exc_info")
            if raised:
                sentry.capture_exception(None if raised is True else raised)
            else:
                sentry.capture_message(event["event"], level="error")
    return event
