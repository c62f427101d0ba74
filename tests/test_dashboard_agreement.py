"""The form and the API take and refuse the same payloads, count alike, and share their idempotency keys."""

from __future__ import annotations

import re

import pytest
import redis
from flask import Flask
from sqlalchemy import Connection, Engine

from tests.api_calls import ApiCalls
from tests.conftest import make_api_key
from tests.factories import Scene
from tests.pages import Person
from tests.test_dashboard_submit import HOOK, made, send


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


@pytest.fixture
def ada(app: Flask) -> Person:
    return Person(app, "ada", "operator")


def test_counts_a_submission_as_the_api_does(scene: Scene, ada: Person) -> None:
    def total() -> float:
        text = ada.open("/metrics").text
        return sum(map(float, re.findall(r"^jobs_submitted_total\{[^}]*\} ([0-9.e+]+)$", text, re.MULTILINE)))

    before = total()
    made(send(ada, scene), scene)
    assert total() == before + 1


PAYLOADS = [
    "null",
    "0",
    "-0.0",
    "01",
    "1.",
    "+1",
    "1e400",
    "-1e400",
    "1e-400",
    "9" * 4300,
    "9" * 4301,
    '"\\ud83d\\ude00"',
    '"\\ude00\\ud83d"',
    '"\\u0000"',
    '"tab\there"',
    '{"a":{"b":1,"b":2}}',
    '{"a":1,}',
    "[1 2]",
    "tru",
    "Infinity",
    "// note\n1",
    "\ufeff1",
    "[" * 63 + "]" * 63,
    "[" * 64 + "]" * 64,
    '"' + "[" * 100 + '"',
]


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_takes_a_payload_exactly_when_the_api_does(
    app: Flask, scene: Scene, ada: Person, db_conn: Connection, payload: str
) -> None:
    api = ApiCalls(app.test_client(), make_api_key(db_conn, "program"))
    body = b'{"type": "t", "callback_url": "%b", "payload": %b}' % (HOOK.encode(), payload.encode())
    is_taken = api.send(body).status_code == 201
    answer = send(ada, scene, payload=payload)
    assert answer.status_code == (302 if is_taken else 422), payload[:80]
    if is_taken:
        assert len({row["payload"] for row in scene.all("jobs")}) == 1


def test_a_key_of_the_form_and_of_the_api_is_the_same(
    app: Flask, scene: Scene, ada: Person, db_conn: Connection
) -> None:
    api = ApiCalls(app.test_client(), make_api_key(db_conn, "program"))
    fields = {"type": "t", "payload": {"a": [1, 2]}, "callback_url": HOOK, "max_attempts": 3}
    job = api.submit(**fields, idempotency_key="k").get_json()["id"]
    client = scene.conn.exec_driver_sql("SELECT id FROM clients WHERE name = 'program'").scalar_one()
    answer = send(
        ada, scene, client=str(client), type="t", payload='{"a":[1,2]}', max_attempts="3", idempotency_key="k"
    )
    assert answer.headers["Location"] == f"/jobs/{job}"
