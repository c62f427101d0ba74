"""Traces by OpenTelemetry, when OTEL_EXPORTER_OTLP_ENDPOINT is set: submit, then claim and callback of each attempt.

The package is loaded only then. Nothing has to be kept between a claim and its record: the id of a callback's span, which the
receiver is told before the span exists, follows from the attempt.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b
from importlib import import_module
from secrets import randbits
from typing import Any

from app.attempts import Answer, Claim
from app.config import ConfigurationError, Settings
from app.version import VERSION

TRACES_PATH = "/v1/traces"


def start_spans(settings: Settings, program: str) -> Spans | None:
    """What sends spans of `program`; None when no endpoint is set. Raises ConfigurationError when the package is not there."""
    if settings.otlp_endpoint is None:
        return None
    try:
        return Spans(settings.otlp_endpoint, program)
    except ImportError as error:
        raise ConfigurationError(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but OpenTelemetry is not installed: install opentelemetry-sdk and "
            f"opentelemetry-exporter-otlp-proto-http, or leave it out ({error})"
        ) from error


class Spans:
    """Sends spans in the background, in batches, what is left at the process's end. Those the collector does not take are dropped."""

    def __init__(self, endpoint: str, program: str) -> None:
        sdk: Any = import_module("opentelemetry.sdk.trace")
        export: Any = import_module("opentelemetry.sdk.trace.export")
        resources: Any = import_module("opentelemetry.sdk.resources")
        exporter: Any = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        self._api: Any = import_module("opentelemetry.trace")
        self._ids = _Ids()
        facts = {"service.name": f"punctual-{program}", "service.version": VERSION}
        self._provider = sdk.TracerProvider(id_generator=self._ids, resource=resources.Resource.create(facts))
        to = exporter.OTLPSpanExporter(endpoint=endpoint.rstrip("/") + TRACES_PATH)
        self._provider.add_span_processor(export.BatchSpanProcessor(to))
        self._tracer = self._provider.get_tracer("punctual", VERSION)

    @contextmanager
    def submit(self, parent: str | None) -> Iterator[str]:
        """A span around a submission. Gives the traceparent that its jobs are stored with."""
        span = self._tracer.start_span("submit", context=self._under(parent), kind=self._api.SpanKind.SERVER)
        try:
            yield _traceparent(span.get_span_context())
        except Exception as error:
            # Its kind alone: the message may quote what was sent.
            span.set_attribute("error.type", type(error).__name__)
            raise
        finally:
            span.end()

    def named(self, claim: Claim) -> Claim:
        """The claim as it is sent: with the traceparent of its callback's span. A job without a trace begins one."""
        trace_id, flags = claim.job_id.hex, "01"
        if claim.traceparent is not None:
            _, trace_id, _, flags = claim.traceparent.split("-")
        sent = f"00-{trace_id}-{_callback_id(claim):016x}-{flags}"
        return replace(claim, traceparent=sent, traced_under=claim.traceparent)

    def ended(self, claim: Claim, answer: Answer) -> None:
        """The spans of an attempt: claim, from when it was due until it was claimed, and callback below it."""
        facts = {
            "punctual.job_id": str(claim.job_id),
            "punctual.client": claim.client_name,
            "punctual.queue": claim.queue_name,
            "punctual.execution": claim.number,
        }
        self._ids.next_trace_id = claim.job_id.int
        waited = self._tracer.start_span(
            "claim", context=self._under(claim.traced_under), start_time=_nanoseconds(claim.due_at), attributes=facts
        )
        waited.end(_nanoseconds(max(claim.due_at, claim.claimed_at)))
        self._ids.next_span_id = _callback_id(claim)
        call = self._tracer.start_span(
            "callback",
            context=self._api.set_span_in_context(waited),
            kind=self._api.SpanKind.CLIENT,
            start_time=_nanoseconds(answer.started_at),
            attributes={**facts, "http.request.method": claim.method, "server.address": claim.callback_host},
        )
        if answer.status_code is not None:
            call.set_attribute("http.response.status_code", answer.status_code)
        if answer.error_class is not None:
            call.set_attribute("error.type", answer.error_class)
            call.set_status(self._api.StatusCode.ERROR)
        call.end(_nanoseconds(answer.finished_at))

    def _under(self, parent: str | None) -> Any:
        """The context of a child of `parent`; an empty one for None."""
        if parent is None:
            return self._api.set_span_in_context(self._api.INVALID_SPAN)
        _, trace_id, span_id, flags = parent.split("-")
        context = self._api.SpanContext(
            int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=self._api.TraceFlags(int(flags, 16))
        )
        return self._api.set_span_in_context(self._api.NonRecordingSpan(context))


class _Ids(threading.local):
    """Random ids, but for the next one of this thread where it was set before."""

    next_trace_id = 0
    next_span_id = 0

    def generate_trace_id(self) -> int:
        self.next_trace_id, chosen = 0, self.next_trace_id
        return chosen or randbits(128) or 1

    def generate_span_id(self) -> int:
        self.next_span_id, chosen = 0, self.next_span_id
        return chosen or randbits(64) or 1

    def is_trace_id_random(self) -> bool:
        return False


def _callback_id(claim: Claim) -> int:
    attempt = f"{claim.job_id} {claim.queue_generation} {claim.attempt}"
    return int.from_bytes(blake2b(attempt.encode(), digest_size=8).digest(), "big") or 1


def _traceparent(context: Any) -> str:
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def _nanoseconds(instant: datetime) -> int:
    return int(instant.timestamp() * 1_000_000) * 1000
