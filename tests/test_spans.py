"""Spans of submit, claim and callback, sent to a real OTLP receiver by real processes."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Any

import pytest
import requests
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from app.config import ConfigurationError, Settings
from app.demo_receiver import DemoReceiver
from app.spans import start_spans
from tests.collector import Collector, running_collector
from tests.eventually import eventually
from tests.processes import ROOT, Processes
from tests.test_traceparent import SOUND, TRACE


def spans_of(collector: Collector) -> list[Any]:
    found = []
    for path, body in collector.posts:
        assert path == "/v1/traces"
        sent = ExportTraceServiceRequest.FromString(body)
        found += [span for resource in sent.resource_spans for scope in resource.scope_spans for span in scope.spans]
    return found


def test_a_job_is_followed_from_submit_to_its_callbacks(
    processes: Processes, receiver: DemoReceiver, api_key: str
) -> None:
    with running_collector() as collector:
        options = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
        processes.worker(**options)
        processes.scheduler(**options)
        web = processes.web(**options)
        job = {
            "type": "t",
            "payload": {},
            "callback_url": f"{receiver.url}/hook-flaky?fails=1",
            "retry": {"backoff": "fixed", "base_seconds": 0.1},
        }
        for traced in ({"traceparent": SOUND}, {}):
            headers = {"Authorization": f"Bearer {api_key}", **traced}
            assert requests.post(f"{web}/v1/jobs", json=job, headers=headers, timeout=10).status_code == 201
        # Two jobs: a submit each, and claim and callback of two attempts each.
        eventually(lambda: len(spans_of(collector)) == 10, timeout=20)
        spans = spans_of(collector)
    by_id = {span.span_id.hex(): span for span in spans}
    assert len(by_id) == 10
    assert sorted(span.name for span in spans) == ["callback"] * 4 + ["claim"] * 4 + ["submit"] * 2
    arrived = {arrival.headers["traceparent"] for arrival in receiver.record.newest_first()}
    calls = [span for span in spans if span.name == "callback"]
    assert arrived == {f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01" for span in calls}
    for call in calls:
        claim = by_id[call.parent_span_id.hex()]
        submit = by_id[claim.parent_span_id.hex()]
        assert (claim.name, submit.name) == ("claim", "submit")
        assert {span.trace_id for span in (claim, submit)} == {call.trace_id}
        assert claim.start_time_unix_nano <= claim.end_time_unix_nano <= call.end_time_unix_nano
        assert call.start_time_unix_nano <= call.end_time_unix_nano
    ours = [span for span in spans if span.name == "submit" and span.trace_id.hex() == TRACE]
    assert [span.parent_span_id.hex() for span in ours] == [SOUND.split("-")[2]]
    assert sorted(span.status.code for span in calls) == [0, 0, 2, 2]


def test_a_collector_that_is_deaf_holds_up_neither_jobs_nor_a_stop(
    processes: Processes, receiver: DemoReceiver, api_key: str
) -> None:
    """It takes connections and never answers."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(8)
        address = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        options = {"OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
        worker = processes.worker(**options, OTEL_BSP_SCHEDULE_DELAY="100")
        processes.scheduler()
        web = processes.web(**options)
        headers = {"Authorization": f"Bearer {api_key}"}
        job = {"type": "t", "payload": {}, "callback_url": f"{receiver.url}/hook"}
        assert requests.post(f"{web}/v1/jobs", json=job, headers=headers, timeout=2).status_code == 201
        eventually(lambda: receiver.record.total == 1)
        worker.ask_to_stop()
        eventually(lambda: not worker.is_running, timeout=8)


def test_without_an_endpoint_nothing_is_loaded() -> None:
    program = (
        "import sys; from app.config import Settings; from app.spans import start_spans; "
        "from app.error_reports import start_error_reports; import worker.run, scheduler.run, wsgi; "
        "assert start_spans(Settings(), 'worker') is None; start_error_reports(Settings(), 'worker'); "
        # The client of Redis loads some of OpenTelemetry itself, where it is installed.
        "assert not {'opentelemetry.exporter', 'opentelemetry.sdk.trace', 'sentry_sdk'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


@pytest.mark.parametrize(
    ("setting", "value", "missing", "program"),
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9", "opentelemetry", "worker"),
        ("SENTRY_DSN", "http://key@127.0.0.1:9/1", "sentry_sdk", "worker"),
        ("SENTRY_DSN", "http://key@127.0.0.1:9/1", "sentry_sdk", "scheduler"),
    ],
)
def test_a_program_says_which_package_it_lacks(
    setting: str, value: str, missing: str, program: str, settings: Settings
) -> None:
    database_url, redis_url = settings.require_stores()
    start = f"import sys; sys.modules[{missing!r}] = None; from {program}.__main__ import main; sys.argv[1:] = []; sys.exit(main())"
    environment = {"DATABASE_URL": database_url, "REDIS_URL": redis_url, setting: value}
    ran = subprocess.run(
        [sys.executable, "-c", start], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert f"{setting} is set, but" in ran.stderr and "is not installed" in ran.stderr


def test_web_says_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ConfigurationError, match="OpenTelemetry is not installed"):
        start_spans(Settings(otlp_endpoint="http://127.0.0.1:9"), "web")
