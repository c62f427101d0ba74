"""Broken, odd and hostile input, at random: every body the API takes, and cron expressions. FUZZ_SECONDS makes it longer."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from flask.testing import FlaskClient

from app.api.docs import document
from app.cron import CronError, describe, parse
from tests.api_calls import HOOK, ApiCalls

# A minute for both together in CI, a few seconds at a desk.
SECONDS = float(os.environ.get("FUZZ_SECONDS", "60" if os.environ.get("CI") == "true" else "6")) / 2
NOW = datetime(2026, 12, 1, 10, tzinfo=UTC)
JOB = {
    "type": "t", "payload": {"a": [1, None, "ü"]}, "callback_url": HOOK, "headers": {"X-A": "b"}, "max_attempts": 3,
    "retry": {"backoff": "list", "delays": [1, 2]}, "success_statuses": ["2xx", 404], "tags": ["a"], "timeout_seconds": 5,
}  # fmt: skip
CRON = {"cron_expression": "*/5 * * * *", "timezone": "Europe/Berlin", "job_template": JOB, "overlap": "skip"}
# One good body for each; a route that is not named here begins from an empty object.
BODIES: dict[str, Any] = {
    "/v1/jobs": {**JOB, "delay_seconds": 60},
    "/v1/jobs/batch": [{**JOB, "delay_seconds": 60}, {**JOB, "idempotency_key": "k"}],
    "/v1/cron-jobs": CRON,
    "/v1/cron-jobs/by-name/{name}": CRON,
    "/v1/cron-jobs/preview": {"cron_expression": "0 0 1 * *", "timezone": "UTC", "count": 3},
    "/v1/test-callback": {"callback_url": HOOK, "method": "GET", "timeout_seconds": 0.1},
}
ODD: list[Any] = [
    None, True, False, 0, -1, 1.5, 1e308, -0.0, 10**30, "", " ", "\x00", "\ud800", "\u202e", "é" * 300, "a" * 5000, "' OR 1=1 --", [], {},
    [[]], {"a": {}}, "2026-02-30T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "http://127.0.0.1:9/", "http://[::1]/",
    "javascript:alert(1)", "2xx", "599-200", "{{7*7}}", "%00", "../..",
]  # fmt: skip
SIGNS = "0123456789*/,-?LW#@ \tMONjan\x00٣五"


def changed(rand: random.Random, value: Any, depth: int = 0) -> Any:
    """The value with something in it replaced, removed, doubled or made odd."""
    if rand.random() < 0.3 or depth > 3 or not isinstance(value, dict | list) or not value:
        return rand.choice(ODD)
    if isinstance(value, list):
        place = rand.randrange(len(value))
        return [*value[:place], changed(rand, value[place], depth + 1), *value[place + rand.randrange(2) :]]
    name = rand.choice(list(value))
    kept = {key: each for key, each in value.items() if key != name or rand.random() < 0.9}
    if rand.random() < 0.2:
        kept[str(rand.choice(ODD))] = rand.choice(ODD)
    else:
        kept[name] = changed(rand, value[name], depth + 1)
    return kept


def as_bytes(rand: random.Random, value: Any) -> bytes:
    """The text of a body; now and then cut, or with bytes replaced."""
    text = json.dumps(value, ensure_ascii=rand.random() < 0.5).encode("utf-8", "surrogatepass")
    if rand.random() < 0.1:
        text = text[: rand.randrange(len(text) + 1)]
    if text and rand.random() < 0.1:
        place = rand.randrange(len(text))
        text = text[:place] + rand.randbytes(rand.randrange(4)) + text[place + 1 :]
    return text


def routes() -> Iterator[tuple[str, str]]:
    for path, operations in document()["paths"].items():
        for method, operation in operations.items():
            if "requestBody" in operation:
                yield method.upper(), path


@pytest.fixture
def api(client: FlaskClient, api_key: str) -> ApiCalls:
    return ApiCalls(client, api_key)


def test_no_body_is_too_odd_for_the_api(api: ApiCalls) -> None:
    seed = random.SystemRandom().randrange(10**9)
    rand, deadline, statuses = random.Random(seed), time.monotonic() + SECONDS, set[int]()
    names: dict[str, str] = {"job_id": api.submitted(delay_seconds=3000), "name": "nightly", "bulk_id": "1"}
    names["cron_job_id"] = str(api.post("/v1/cron-jobs", CRON).get_json()["id"])
    ways = list(routes())
    assert len(ways) >= 10
    while time.monotonic() < deadline:
        method, path = rand.choice(ways)
        body = as_bytes(
            rand, changed(rand, BODIES.get(path, {"from": "2026-12-01T00:00:00Z", "reason": "x", "name": "y"}))
        )
        answer = api.call(method, path.format_map(names), data=body, content_type="application/json")
        statuses.add(answer.status_code)
        told = answer.get_data(as_text=True)
        assert answer.status_code in (200, 201, 202, 204, 400, 404, 409, 413, 415, 429), (
            seed,
            method,
            path,
            body,
            told,
        )
        if answer.status_code >= 400:
            assert set(json.loads(told)) == {"error"}, (seed, body)
    assert {201, 400} <= statuses


def test_no_text_is_too_odd_for_a_cron_expression() -> None:
    seed = random.SystemRandom().randrange(10**9)
    rand, deadline, read = random.Random(seed), time.monotonic() + SECONDS, 0
    while time.monotonic() < deadline:
        fields = [
            "".join(rand.choices(SIGNS, k=rand.randint(1, 5)))
            if rand.random() < 0.4
            else rand.choice(["*", "*/7", "1-5", "0", "mon", "31"])
            for _ in range(rand.choice([5, 5, 5, 5, 1, 6]))
        ]
        expression = rand.choice([" ", " ", "\t", "  "]).join(fields)
        try:
            schedule = parse(
                expression, rand.choice(["UTC", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo"])
            )
            found = [NOW, *schedule.upcoming(NOW, 3)]
            described = describe(expression)
        except CronError:
            continue
        read += 1
        assert found == sorted(set(found)), (seed, expression)
        assert described, (seed, expression)
    assert read > 100
