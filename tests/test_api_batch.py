"""POST /v1/jobs/batch: each item is judged by itself, and all that are good are stored by one statement."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest
import redis
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine, event, text

from app.api import callback
from app.api.lookup import Lookups
from tests.api_calls import HOOK, ApiCalls, error

PATH = "/v1/jobs/batch"
JOB: dict[str, Any] = {"type": "t", "payload": {"n": 1}, "callback_url": HOOK}


@pytest.fixture
def api(client: FlaskClient, api_key: str) -> ApiCalls:
    return ApiCalls(client, api_key)


def results(answer: Any) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.get_json()
    return found


def test_each_item_has_its_result_in_order(api: ApiCalls, db_conn: Connection) -> None:
    items = [
        {**JOB, "idempotency_key": "a"},
        {**JOB, "type": ""},
        {**JOB, "idempotency_key": "a"},
        {**JOB, "idempotency_key": "a", "type": "other"},
        {**JOB, "delay_seconds": 3600, "queue": "new", "tags": ["x", "y"], "headers": {"X-A": "b"}, "priority": 9},
        {**JOB, "callback_url": "http://10.0.0.1/"},
        7,
        {"type": "t", "method": "GET", "callback_url": HOOK},
    ]
    found = results(api.post(PATH, items))
    assert [each["result"] for each in found] == [
        "created", "invalid", "replayed", "conflict", "created", "invalid", "invalid", "created",
    ]  # fmt: skip
    assert found[0]["id"] == found[2]["id"]
    assert found[1]["error"]["details"][0]["field"] == "type"
    assert found[3]["error"]["code"] == "IDEMPOTENCY_KEY_CONFLICT"
    assert found[4]["status"] == "scheduled"
    assert found[5]["error"]["details"][0]["field"] == "callback_url"
    assert db_conn.execute(text("SELECT count(*) FROM jobs")).scalar_one() == 3
    job = api.get(f"/v1/jobs/{found[4]['id']}").get_json()
    assert (job["queue"], job["tags"], job["headers"], job["priority"]) == ("new", ["x", "y"], {"X-A": "b"}, 9)
    assert (job["max_attempts"], job["timeout_seconds"]) == (5, 10.0)


def test_the_same_batch_again_makes_nothing(api: ApiCalls, db_conn: Connection) -> None:
    items = [{**JOB, "idempotency_key": f"k{number}"} for number in range(5)]
    first = results(api.post(PATH, items))
    again = results(api.post(PATH, items[::-1]))
    assert [each["result"] for each in again] == ["replayed"] * 5
    assert [each["id"] for each in again] == [each["id"] for each in first][::-1]
    assert db_conn.execute(text("SELECT count(*) FROM jobs")).scalar_one() == 5


def test_a_key_may_be_used_again_after_its_window(api: ApiCalls, db_conn: Connection) -> None:
    item = {**JOB, "idempotency_key": "k", "dedupe_window_seconds": 60}
    [first] = results(api.post(PATH, [item]))
    assert results(api.post(PATH, [item]))[0]["result"] == "replayed"
    db_conn.execute(text("UPDATE jobs SET dedupe_until = punctual_now()"))
    [second] = results(api.post(PATH, [item]))
    assert (second["result"], second["id"] != first["id"]) == ("created", True)


@pytest.mark.parametrize(
    "payload", ["1.0", '{ "b":1 ,"a":[ 1.50 ] }', '"\\u0041\\/"', '{"a":"x\\u0000y"}', "12345678901234567890"]
)
@pytest.mark.parametrize("lines", [True, False])
def test_payloads_keep_their_very_text(api: ApiCalls, db_conn: Connection, payload: str, lines: bool) -> None:
    item = f'{{"type": "t", "payload":  {payload} , "callback_url": "{HOOK}"}}'
    body, kind = (
        (f"{item}\n\n{item}\n", "application/x-ndjson") if lines else (f"[{item} ,\n{item}]", "application/json")
    )
    found = results(api.send(body.encode(), kind, PATH))
    assert [each["result"] for each in found] == ["created", "created"]
    assert db_conn.execute(text("SELECT DISTINCT payload FROM jobs")).scalar_one() == payload


def test_a_line_that_is_no_json_spoils_no_other(api: ApiCalls) -> None:
    body = "\n".join([json.dumps(JOB), "{", '{"type": "t", "type": "u"}', json.dumps(JOB)])
    found = results(api.send(body, "application/x-ndjson", PATH))
    assert [each["result"] for each in found] == ["created", "invalid", "invalid", "created"]


@pytest.mark.parametrize(
    ("body", "kind", "status", "words"),
    [
        (b"{}", "application/json", 400, "array"),
        (b"[]", "application/json", 400, "0 jobs"),
        (b"", "application/json", 400, "array"),
        (b"[{},]", "application/json", 400, "not JSON"),
        (b"[{} {}]", "application/json", 400, "not JSON"),
        (b"[1] 2", "application/json", 400, "not JSON"),
        (b"[" * 100_000, "application/json", 400, "not JSON"),
        (b"\xff", "application/json", 400, "UTF-8"),
        (b"[1]", "text/plain", 415, "application/x-ndjson"),
        (b"[" + b",".join([b"1"] * 1001) + b"]", "application/json", 400, "1,001 jobs"),
        (b'["' + b"a" * (10 << 20) + b'"]', "application/json", 413, "larger"),
    ],
)
def test_what_is_no_batch_is_refused(api: ApiCalls, body: bytes, kind: str, status: int, words: str) -> None:
    assert words in error(api.send(body, kind, PATH), status)["message"]


def test_a_thousand_are_one_insert_and_reach_redis(api: ApiCalls, engine: Engine, redis_client: redis.Redis) -> None:
    inserts: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        inserts.extend(["INSERT"] if "INSERT INTO jobs" in statement else [])

    event.listen(engine, "before_cursor_execute", note)
    try:
        found = results(api.post(PATH, [{**JOB, "payload": number, "delay_seconds": 5} for number in range(1000)]))
    finally:
        event.remove(engine, "before_cursor_execute", note)
    assert {each["result"] for each in found} == {"created"}
    assert len(inserts) == 1
    assert redis_client.zcard("{punctual}:scheduled") == 1000


def test_hosts_are_looked_up_once_each_and_side_by_side(api: ApiCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    together = threading.Barrier(4)

    def resolve(host: str) -> tuple[str, ...]:
        asked.append(host)
        together.wait(timeout=5)
        return ("10.0.0.1",) if host == "h0.example.com" else ("93.184.216.34",)

    monkeypatch.setattr(callback, "lookups", Lookups(resolve))
    monkeypatch.setattr(callback, "WAIT_SECONDS", 5.0)
    found = results(
        api.post(PATH, [{**JOB, "callback_url": f"http://h{number % 4}.example.com/"} for number in range(40)])
    )
    assert sorted(asked) == [f"h{number}.example.com" for number in range(4)]
    assert [each["result"] for each in found] == ["invalid", "created", "created", "created"] * 10


def test_hosts_that_hang_hold_up_a_batch_for_a_second_in_all(api: ApiCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    def hangs(_host: str) -> tuple[str, ...]:
        gate.wait()
        return ()

    monkeypatch.setattr(callback, "lookups", Lookups(hangs))
    began = time.monotonic()
    try:
        found = results(
            api.post(PATH, [{**JOB, "callback_url": f"http://h{number}.example.com/"} for number in range(20)])
        )
    finally:
        gate.set()
    assert {each["result"] for each in found} == {"created"}
    assert time.monotonic() - began < 5, "twenty, one after the other, would be twenty seconds"
