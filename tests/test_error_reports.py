"""Errors to Sentry: what arrives at a real server that takes the envelopes, and what never does."""

from __future__ import annotations

import json
from typing import Any

import requests
from sqlalchemy import Connection, text

from app.error_reports import scrubbed
from tests.collector import Collector, running_collector
from tests.eventually import eventually
from tests.processes import Processes

SECRET = "do-not-tell-anybody"


def events(collector: Collector) -> list[dict[str, Any]]:
    """The events of all envelopes: a line for the envelope, then two for each item."""
    found = []
    for path, body in collector.posts:
        assert path == "/api/7/envelope/"
        lines = body.splitlines()[1:]
        found += [
            json.loads(item) for head, item in zip(lines[::2], lines[1::2]) if json.loads(head)["type"] == "event"
        ]
    return found


def test_an_error_of_web_arrives_without_what_was_sent(processes: Processes, api_key: str, db_conn: Connection) -> None:
    with running_collector() as collector:
        web = processes.web(SENTRY_DSN=collector.url.replace("://", "://public@") + "/7")
        db_conn.execute(text("ALTER TABLE jobs RENAME TO jobs_away"))
        try:
            job = {"type": SECRET, "payload": {"a": SECRET}, "callback_url": f"http://127.0.0.1:9/?{SECRET}"}
            headers = {"Authorization": f"Bearer {api_key}", "X-Secret": SECRET, "Cookie": f"a={SECRET}"}
            answer = requests.post(f"{web}/v1/jobs?{SECRET}", json=job, headers=headers, timeout=10)
        finally:
            db_conn.execute(text("ALTER TABLE jobs_away RENAME TO jobs"))
        assert answer.status_code == 500
        eventually(lambda: events(collector))
    (event,) = events(collector)
    assert event["tags"] == {"program": "web", "event": "request_failed"}
    assert event["exception"]["values"][-1]["type"] == "ProgrammingError"
    assert any(
        frame["module"] == "app.jobs.submit" for frame in event["exception"]["values"][-1]["stacktrace"]["frames"]
    )
    sent = b"".join(body for _, body in collector.posts).decode()
    assert SECRET not in sent and api_key not in sent and api_key[:11] not in sent


def test_an_error_of_a_worker_arrives_too(processes: Processes) -> None:
    with running_collector() as collector:
        processes.start(
            "worker",
            "-c",
            "from app.config import Settings; from app.logs import configure_logging; import structlog; "
            "from app.error_reports import start_error_reports; settings = Settings.from_env(); "
            "configure_logging(settings); start_error_reports(settings, 'worker'); "
            f"structlog.get_logger('x').error('stage_died', stages=['{SECRET}']); "
            "structlog.get_logger('x').warning('late_result')",
            SENTRY_DSN=collector.url.replace("://", "://public@") + "/7",
        )
        eventually(lambda: events(collector))
    assert [(event["message"], event["tags"]["program"]) for event in events(collector)] == [("stage_died", "worker")]
    assert SECRET not in b"".join(body for _, body in collector.posts).decode()


def test_bodies_headers_and_texts_are_taken_out_of_any_event() -> None:
    """As an integration would fill it in."""
    event: dict[str, Any] = {
        "request": {
            "method": "POST",
            "url": f"http://h/?{SECRET}",
            "data": SECRET,
            "headers": {"Authorization": SECRET},
        },
        "extra": {"payload": SECRET},
        "user": {"name": SECRET},
        "contexts": {"runtime": {"name": "CPython"}, "other": SECRET},
        "exception": {
            "values": [
                {"type": "E", "value": SECRET, "stacktrace": {"frames": [{"vars": {"key": SECRET}, "lineno": 1}]}}
            ]
        },
    }
    assert scrubbed(event) == {
        "request": {"method": "POST"},
        "contexts": {"runtime": {"name": "CPython"}},
        "exception": {"values": [{"type": "E", "value": "", "stacktrace": {"frames": [{"lineno": 1}]}}]},
    }
