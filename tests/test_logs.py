"""Logs: one JSON line an event in production, a line for each request, and nothing secret in any."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog
from flask import Flask
from flask.testing import FlaskClient

from app.config import Settings
from app.logs import configure_logging

Lines = Callable[[], list[dict[str, Any]]]
Configure = Callable[[Settings], io.StringIO]


@pytest.fixture
def configured(settings: Settings) -> Iterator[Configure]:
    """Sets logging up as a program does, and returns where it writes; afterwards it is as it was for the tests."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level

    def configure(settings: Settings) -> io.StringIO:
        configure_logging(settings)
        written = io.StringIO()
        (handler,) = root.handlers
        assert isinstance(handler, logging.StreamHandler)
        handler.setStream(written)
        return written

    yield configure
    configure_logging(settings)
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def lines(configured: Configure) -> Lines:
    """Logs as in production; the answer is every line so far, parsed."""
    written = configured(Settings(log_json=True))
    return lambda: [json.loads(line) for line in written.getvalue().splitlines()]


def test_production_logs_one_json_line_an_event_with_the_job_it_is_about(lines: Lines) -> None:
    logger = structlog.get_logger("app.tests")
    with structlog.contextvars.bound_contextvars(job_id="0197"):
        logger.warning("job_retried", attempt=2)
    logger.info("text\nof two lines")
    first, second = lines()
    assert (first["event"], first["job_id"], first["attempt"]) == ("job_retried", "0197", 2)
    assert (first["level"], first["logger"]) == ("warning", "app.tests")
    assert first["timestamp"].endswith("Z")
    assert (second["event"], "job_id" in second) == ("text\nof two lines", False)


def test_an_exception_stays_on_its_line(lines: Lines) -> None:
    try:
        raise ValueError("no good")
    except ValueError:
        structlog.get_logger("app.tests").exception("failed", job_id="0197")
        logging.getLogger("some.library").exception("failed too")
    ours, theirs = lines()
    assert ours["job_id"] == "0197"
    assert "ValueError: no good" in ours["exception"]
    assert "ValueError: no good" in theirs["exception"]


def test_a_terminal_gets_readable_text(configured: Configure) -> None:
    written = configured(Settings(log_json=False))
    structlog.get_logger("app.tests").info("job_done", job_id="0197")
    assert "job_done" in written.getvalue()
    assert "job_id=0197" in written.getvalue()
    assert not written.getvalue().startswith("{")


def requests_in(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if line["event"] == "request"]


def test_each_request_is_one_line_with_its_client(client: FlaskClient, api_key: str, lines: Lines) -> None:
    answer = client.get("/v1/jobs?limit=1", headers={"Authorization": f"Bearer {api_key}"})
    (line,) = requests_in(lines())
    assert (line["method"], line["rule"], line["status"], line["client"]) == ("GET", "/v1/jobs", 200, "tests")
    assert 0 < line["ms"] < 10_000
    assert line["request_id"] == answer.headers["X-Request-ID"]


def test_the_job_an_address_is_about_is_on_every_line(client: FlaskClient, api_key: str, lines: Lines) -> None:
    job_id = "01978f3e-0000-7000-8000-000000000000"
    assert client.get(f"/v1/jobs/{job_id}", headers={"Authorization": f"Bearer {api_key}"}).status_code == 404
    assert [line["job_id"] for line in requests_in(lines())] == [job_id]


def test_neither_key_nor_payload_nor_query_is_logged(client: FlaskClient, api_key: str, lines: Lines) -> None:
    headers = {"Authorization": f"Bearer {api_key}"}
    body = {
        "type": "t",
        "payload": {"secret": "payload-secret"},
        "callback_url": "http://127.0.0.1:9/?token=url-secret",
    }
    assert client.post("/v1/jobs", json=body, headers=headers).status_code == 201
    client.post("/v1/jobs?token=query-secret", data="payload-secret", headers=headers)
    client.get("/v1/jobs", headers={"Authorization": "Bearer pk_" + "s" * 43})
    written = json.dumps(lines())
    assert len(requests_in(lines())) == 3
    for secret in (api_key, "payload-secret", "url-secret", "query-secret", "s" * 43):
        assert secret not in written


def test_a_request_id_is_kept_when_it_is_plain(client: FlaskClient) -> None:
    assert (
        client.get("/healthz", headers={"X-Request-ID": "from-the-proxy.7"}).headers["X-Request-ID"]
        == "from-the-proxy.7"
    )
    for odd in ("", "a b", "x" * 65, '"}'):
        assert client.get("/healthz", headers={"X-Request-ID": odd}).headers["X-Request-ID"] != odd


def test_what_one_request_bound_is_gone_in_the_next(
    app: Flask, client: FlaskClient, api_key: str, lines: Lines
) -> None:
    client.get("/v1/jobs", headers={"Authorization": f"Bearer {api_key}"})
    client.get("/no/such/page")
    first, second = requests_in(lines())
    assert "client" in first
    assert (second["rule"], "client" in second) == (None, False)
    assert first["request_id"] != second["request_id"]


def test_probes_are_quiet_unless_they_fail(client: FlaskClient, lines: Lines) -> None:
    client.get("/healthz")
    client.get("/metrics")
    assert requests_in(lines()) == []
