"""The button that tries a call: one request now with what stands in the form, the result on the same page, and nothing stored."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from flask import Flask
from sqlalchemy import Connection, Engine, text
from standardwebhooks import Webhook
from werkzeug.test import TestResponse

from app import trials
from app.demo_receiver import DemoReceiver
from app.signing import new_secret
from tests.delivery import answering
from tests.delivery import receiver as raw_receiver
from tests.factories import Scene
from tests.forms import refusals, values
from tests.pages import HOSTILE, Person, assert_text_only

TABLES = ("jobs", "executions", "cron_entries", "audit_log", "minute_stats")


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    scene = Scene.on(engine, redis_client, db_conn)
    db_conn.execute(text("UPDATE clients SET signing_secret = :secret"), {"secret": new_secret()})
    return scene


@pytest.fixture
def ada(app: Flask) -> Person:
    return Person(app, "ada", "operator")


@pytest.fixture(params=["/jobs/new", "/cron/new"])
def path(request: pytest.FixtureRequest, scene: Scene) -> Iterator[str]:
    """A form; whatever was done to it, nothing is stored."""
    yield request.param
    assert {
        table: scene.count(table, "action LIKE 'job%'" if table == "audit_log" else "true") for table in TABLES
    } == (dict.fromkeys(TABLES, 0))


def press(person: Person, path: str, scene: Scene, fragment: bool = False, **fields: str) -> TestResponse:
    given = {
        "type": "",
        "payload": "{}",
        "client": str(scene.client_id),
        "test": "1",
        "csrf_token": person.token,
        **fields,
    }
    return person.open(path, method="POST", data=given, headers={"X-Fragment": "1"} if fragment else {})


def result(answer: TestResponse) -> str:
    found = re.search(r'<div id="callback-test".*', answer.text, re.DOTALL)
    assert found is not None
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", found[0])))


@pytest.mark.parametrize("fragment", [False, True])
def test_sends_what_stands_in_the_form_and_shows_what_came_back(
    path: str, scene: Scene, ada: Person, receiver: DemoReceiver, fragment: bool
) -> None:
    answer = press(
        ada, path, scene, fragment, callback_url=f"{receiver.url}/hook", method="PATCH", headers="X-Tenant: 7",
        payload='{"n": 9007199254740993}', cron_expression="not looked at", max_attempts="x", delays="x",
    )  # fmt: skip
    assert answer.status_code == 200
    (arrival,) = receiver.record.newest_first()
    assert (arrival.method, arrival.path, arrival.body) == ("PATCH", "/hook", b'{"n": 9007199254740993}')
    assert arrival.header("X-Tenant") == "7"
    secret = scene.all("clients")[0]["signing_secret"]
    Webhook(secret).verify(arrival.body, {name.lower(): value for name, value in arrival.headers.items()})
    shown = result(answer)
    for word in (
        "succeeded",
        "HTTP 200",
        '{"received": true}',
        "First byte",
        "Total",
        "Content-Type",
        "Nothing was stored",
    ):
        assert word in shown, word
    assert ("<html" in answer.text) is not fragment
    if not fragment:
        # What was typed stands there as it did, and nothing else is found fault with.
        typed = values(answer.text)
        assert (typed["method"], typed["headers"], typed["delays"]) == ("PATCH", "X-Tenant: 7", "x")
        assert typed["payload"] == '{"n": 9007199254740993}' and 'id="type-error"' not in answer.text


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"callback_url": "{url}/hook-fail"}, ("failed", "HTTP 500", "answered 500")),
        ({"callback_url": "{url}/hook-fail", "success_statuses": "500"}, ("succeeded", "HTTP 500")),
        ({"callback_url": "{url}/hook-slow?seconds=5", "timeout_seconds": "0.2 s"}, ("timed out", "within 0.2 s")),
        ({"callback_url": "http://127.0.0.1:1/"}, ("failed", "could not be made")),
        ({"callback_url": "{url}/hook", "body_kind": "none", "method": "GET"}, ("succeeded", "HTTP 200")),
        # A test waits half a minute at most, whatever the job would.
        ({"callback_url": "{url}/hook", "timeout_seconds": "15 min"}, ("succeeded", "HTTP 200")),
    ],
)
def test_says_in_words_what_it_came_to(
    path: str, scene: Scene, ada: Person, receiver: DemoReceiver, fields: dict[str, str], words: tuple[str, ...]
) -> None:
    given = {name: value.replace("{url}", receiver.url) for name, value in fields.items()}
    shown = result(press(ada, path, scene, **given))
    assert all(word in shown for word in words), shown


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "callback_url"),
        ({"callback_url": "ftp://x/"}, "callback_url"),
        ({"callback_url": "http://10.0.0.1/"}, "callback_url"),
        ({"headers": "Host: x"}, "headers"),
        ({"payload": "{"}, "payload"),
        ({"body_kind": "none"}, "body_kind"),
        ({"timeout_seconds": "16 min"}, "timeout_seconds"),
        ({"success_statuses": "x"}, "success_statuses"),
    ],
)
def test_what_cannot_be_sent_is_told_at_its_field(
    path: str, scene: Scene, ada: Person, fields: dict[str, str], field: str
) -> None:
    given = {"callback_url": "http://127.0.0.1:9/", **fields} if fields else {}
    answer = press(ada, path, scene, **given)
    assert set(refusals(answer)) == {field}
    assert "Nothing was sent" in result(press(ada, path, scene, fragment=True, **given))


def test_says_so_while_too_many_are_under_way(
    path: str, scene: Scene, ada: Person, receiver: DemoReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "MOST_OF_A_CLIENT", 0)
    assert "Too many test callbacks" in result(press(ada, path, scene, callback_url=f"{receiver.url}/hook"))
    assert receiver.record.newest_first() == []


@pytest.mark.parametrize("hostile", HOSTILE)
def test_an_answer_is_text_alone(path: str, scene: Scene, ada: Person, hostile: str) -> None:
    body = hostile.encode()
    raw = b"HTTP/1.1 302 Found\r\nLocation: %b\r\nX-Why: %b\r\nContent-Length: %d\r\n\r\n%b" % (
        body,
        body,
        len(body),
        body,
    )
    with raw_receiver(answering(raw)) as made:
        answer = press(ada, path, scene, fragment=True, callback_url=made.url)
    assert "HTTP 302" in result(answer)
    assert_text_only(answer.text)


def test_a_viewer_may_not_test(app: Flask, path: str, scene: Scene, receiver: DemoReceiver) -> None:
    assert press(Person(app, "vic", "viewer"), path, scene, callback_url=f"{receiver.url}/hook").status_code == 403
    assert receiver.record.newest_first() == []


def test_without_a_token_nothing_is_sent(path: str, scene: Scene, ada: Person, receiver: DemoReceiver) -> None:
    answer = press(ada, path, scene, callback_url=f"{receiver.url}/hook", csrf_token="x")
    assert answer.status_code in (400, 422) and receiver.record.newest_first() == []


@pytest.mark.parametrize("kind", ["job", "copy", "entry"])
def test_hidden_headers_are_sent_from_where_the_form_was_filled(
    scene: Scene, ada: Person, receiver: DemoReceiver, kind: str
) -> None:
    columns: dict[str, Any] = {
        "headers": json.dumps([["Authorization", "Bearer s3"]]),
        "callback_url": f"{receiver.url}/hook",
    }
    if kind == "entry":
        path = f"/cron/{scene.entry(**columns)}/edit"
    else:
        job = scene.job("dead", **columns)
        path = f"/jobs/{job}/edit" if kind == "job" else f"/jobs/new?from={job}"
    answer = press(ada, path.split("?")[0], scene, **values(ada.get(path)))
    assert "HTTP 200" in result(answer) and "s3" not in answer.text
    (arrival,) = receiver.record.newest_first()
    assert arrival.header("Authorization") == "Bearer s3"
