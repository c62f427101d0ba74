"""Submitting by the form: what it makes, that it refuses what the API refuses, times in one's zone, and duplicates."""

from __future__ import annotations

import html
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
import redis
from flask import Flask
from sqlalchemy import Connection, Engine
from werkzeug.test import TestResponse

from tests.factories import Scene, make_client
from tests.forms import refusals
from tests.pages import HOSTILE, Person, assert_text_only

HOOK = "http://127.0.0.1:9/hook"


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


@pytest.fixture
def ada(app: Flask) -> Person:
    return Person(app, "ada", "operator")


def send(person: Person, scene: Scene, **fields: Any) -> TestResponse:
    values = {
        "client": str(scene.client_id),
        "type": "email.send",
        "callback_url": HOOK,
        "payload": "{}",
        "when": "now",
        "delay": "5",
        "unit": "minutes",
        "run_at": "",
        "zone": "UTC",
        "max_attempts": "5",
        "idempotency_key": "",
    }
    return person.post("/jobs/new", **{**values, **fields})


def made(answer: TestResponse, scene: Scene) -> dict[str, Any]:
    assert answer.status_code == 302, re.findall(r"field-error.*?</div>", answer.text, re.DOTALL)
    (row,) = [dict(row) for row in scene.all("jobs")]
    assert answer.headers["Location"] == f"/jobs/{row['id']}"
    return row


def test_makes_a_job_that_is_due_now(scene: Scene, ada: Person) -> None:
    row = made(send(ada, scene, payload='{"n": 9007199254740993}\r\n', max_attempts="7"), scene)
    assert (row["type"], row["payload"], row["callback_url"]) == ("email.send", '{"n": 9007199254740993}', HOOK)
    assert (row["callback_host"], row["max_attempts"], row["status"]) == ("http://127.0.0.1:9", 7, "pending")
    assert row["client_id"] == scene.client_id and row["idempotency_key"] is None
    assert scene.ready() == [f"{row['id']}:0:0"]
    note = scene.all("audit_log")[-1]
    assert (note["action"], note["actor"], note["target_id"]) == ("job.submit", "ada", str(row["id"]))
    assert "900719" not in json.dumps(note["detail"]), "no payload in the audit log"
    assert ada.told() == ["The job is accepted."]


@pytest.mark.parametrize(
    ("delay", "unit", "seconds"),
    [("5", "minutes", 300), ("1.5", "hours", 5400), ("2,5", "seconds", 2.5), ("0", "days", 0)],
)
def test_makes_a_job_for_later(scene: Scene, ada: Person, delay: str, unit: str, seconds: float) -> None:
    row = made(send(ada, scene, when="delay", delay=delay, unit=unit), scene)
    assert row["run_at"] - row["created_at"] == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("local", "zone", "instant"),
    [
        ("2027-01-15T10:00", "Europe/Berlin", datetime(2027, 1, 15, 9, 0, tzinfo=UTC)),
        ("2027-07-15T10:00:30", "America/New_York", datetime(2027, 7, 15, 14, 0, 30, tzinfo=UTC)),
        ("2027-01-15T10:00", "UTC", datetime(2027, 1, 15, 10, 0, tzinfo=UTC)),
        # 02:30 comes twice on this day: the first is meant.
        ("2027-10-31T02:30", "Europe/Berlin", datetime(2027, 10, 31, 0, 30, tzinfo=UTC)),
    ],
)
def test_takes_a_time_in_the_zone_the_form_was_shown_in(
    scene: Scene, ada: Person, local: str, zone: str, instant: datetime
) -> None:
    assert made(send(ada, scene, when="at", run_at=local, zone=zone), scene)["run_at"] == instant


def test_a_time_the_clocks_skip_is_refused(scene: Scene, ada: Person) -> None:
    answer = send(ada, scene, when="at", run_at="2027-03-28T02:30", zone="Europe/Berlin")
    assert "skip this time" in refusals(answer)["when"]


def test_a_job_expires_at_a_time_of_the_zone(scene: Scene, ada: Person) -> None:
    row = made(send(ada, scene, expires_at="2999-07-01T10:00:05", zone="Europe/Berlin"), scene)
    assert row["expires_at"] == datetime(2999, 7, 1, 8, 0, 5, tzinfo=UTC)
    assert "2999-07-01" in ada.get(f"/jobs/{row['id']}")
    assert (
        refusals(send(ada, scene, expires_at="soon"))["expires_at"]
        == "Give a day and a time, such as 2026-12-01 10:00."
    )
    copy = ada.get(f"/jobs/new?from={row['id']}")
    assert re.search(r'name="expires_at"[^>]*value="2999-07-01T08:00:05"', copy)
    scene.change(row["id"], expires_at=scene.now() - timedelta(seconds=5))
    copy = ada.get(f"/jobs/new?from={row['id']}")
    assert re.search(r'name="expires_at"[^>]*value=""', copy)


def test_shows_the_form_in_the_viewers_zone(scene: Scene, ada: Person) -> None:
    ada.client.set_cookie("punctual_tz", "Asia/Tokyo")
    page = ada.get("/jobs/new")
    assert re.search(r'name="zone"[^>]*value="Asia/Tokyo"', page) and "Asia/Tokyo</span>" in page


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"type": ""}, "type", "Say what kind"),
        ({"type": "x" * 129}, "type", "128"),
        ({"type": "a\0b"}, "type", "control characters"),
        ({"type": "a\u2028b"}, "type", "control characters"),
        ({"callback_url": ""}, "callback_url", "Give the address"),
        ({"callback_url": "ftp://example.com/"}, "callback_url", "https:// or http://"),
        ({"callback_url": "javascript:alert(1)"}, "callback_url", "https:// or http://"),
        ({"callback_url": "http://10.0.0.1/"}, "callback_url", "may not be called"),
        ({"payload": ""}, "payload", "any JSON value"),
        ({"payload": '{"a": 1,\r\n "b": }'}, "payload", "line 2, column 7"),
        ({"payload": '{"a": 1}, "type": "x"'}, "payload", "not JSON"),
        ({"payload": '1}, {"b": 2'}, "payload", "not JSON"),
        ({"payload": "{'a': 1}"}, "payload", "line 1, column 2"),
        ({"payload": '{"a": 1, "a": 2}'}, "payload", "comes twice"),
        ({"payload": "NaN"}, "payload", "NaN"),
        ({"payload": "1e400"}, "payload", "too large"),
        ({"payload": '"\\ud800"'}, "payload", "surrogate"),
        ({"payload": "[" * 64 + "]" * 64}, "payload", "nested too deep"),
        ({"payload": '"a\0b"'}, "payload", "not JSON"),
        ({"max_attempts": "0"}, "max_attempts", "greater than or equal to 1"),
        ({"max_attempts": "101"}, "max_attempts", "less than or equal to 100"),
        ({"max_attempts": "3.5"}, "max_attempts", "whole number"),
        ({"max_attempts": "many"}, "max_attempts", "whole number"),
        ({"when": "delay", "delay": "soon"}, "when", "Give a number"),
        ({"when": "delay", "delay": "nan"}, "when", "Give a number"),
        ({"when": "delay", "delay": "366", "unit": "days"}, "when", "less than or equal"),
        ({"when": "delay", "unit": "aeons"}, "when", "Give a number"),
        ({"when": "at", "run_at": ""}, "when", "Give a day and a time"),
        ({"when": "at", "run_at": "9999-12-31T23:59", "zone": "America/New_York"}, "when", "Give a day and a time"),
        ({"idempotency_key": "k" * 256}, "idempotency_key", "255"),
        ({"client": ""}, "client", "Choose whose"),
        ({"client": "999999"}, "client", "Choose whose"),
        ({"client": "x"}, "client", "Choose whose"),
    ],
)
def test_says_by_the_field_what_is_wrong_and_keeps_what_was_typed(
    scene: Scene, ada: Person, fields: dict[str, str], field: str, words: str
) -> None:
    answer = send(ada, scene, **{"idempotency_key": "typed-before", **fields})
    told = refusals(answer)
    assert set(told) == {field} and words in told[field], told
    assert scene.count("jobs") == 0
    if "idempotency_key" not in fields:
        assert 'value="typed-before"' in answer.text


def test_tells_everything_at_once(scene: Scene, ada: Person) -> None:
    assert set(refusals(send(ada, scene, type="", payload="{", max_attempts="x"))) == {
        "type",
        "payload",
        "max_attempts",
    }


def test_a_payload_as_large_as_the_api_takes_goes_through_the_form(app: Flask, scene: Scene, ada: Person) -> None:
    most = app.extensions["settings"].max_body_bytes
    # Quotes and escapes grow threefold in a form: the worst case that is still taken.
    payload = "[" + '"",' * ((most - 300) // 3) + "0]"
    row = made(send(ada, scene, payload=payload), scene)
    assert row["payload"] == payload
    assert "larger than" in refusals(send(ada, scene, payload='"' + "x" * most + '"'))["payload"]


def test_one_key_makes_one_job(scene: Scene, ada: Person) -> None:
    first = send(ada, scene, idempotency_key="k", payload='{"a": 1}')
    again = send(ada, scene, idempotency_key="k", payload='{ "a": 1.0 }')
    assert again.headers["Location"] == first.headers["Location"]
    assert scene.count("jobs") == 1
    assert "No second one was made" in ada.told()[-1]
    other = send(ada, scene, idempotency_key="k", payload='{"a": 2}')
    assert "used for another job" in refusals(other)["idempotency_key"]


def test_a_duplicate_is_filled_in_and_sent_as_it_was(scene: Scene, ada: Person) -> None:
    payload = '{ "id" : 9007199254740993 , "é": "<b>" }'
    other = make_client(scene.conn, "other")
    job = scene.job(
        type="a.b",
        payload=payload,
        callback_url="https://api.example.com/in",
        max_attempts=9,
        idempotency_key="key-of-the-first",
    )
    page = ada.get(f"/jobs/new?from={job}")
    area = re.search(r"<textarea[^>]*>\r?\n?(.*?)</textarea>", page, re.DOTALL)
    assert area is not None and html.unescape(area.group(1)) == payload
    assert 'value="https://api.example.com/in"' in page and 'value="a.b"' in page and 'value="9"' in page
    assert f'<option selected value="{scene.client_id}">' in page and f'value="{other}"' in page
    assert "key-of-the-first" not in page, "a copy is another job, so it has not the key"


def test_a_duplicate_of_nothing_is_an_empty_form(scene: Scene, ada: Person) -> None:
    for source in (str(uuid4()), "x", ""):
        assert 'value="email.send"' not in ada.get(f"/jobs/new?from={source}")


@pytest.mark.parametrize(
    ("attempts", "words"),
    [
        ("1", "no retry"),
        ("4", "Retries wait 1 s, 2 s, 4 s: 7 s in all"),
        ("100", "up to 15 min"),
        ("0", "from 1 to 100"),
        ("x", "from 1 to 100"),
        ("9" * 40, "from 1 to 100"),
        ("", "Retries wait 1 s, 2 s, 4 s, 8 s: 15 s in all"),
    ],
)
def test_shows_the_planned_delays(scene: Scene, ada: Person, attempts: str, words: str) -> None:
    assert words in ada.get(f"/jobs/new/planned-delays?max_attempts={attempts}")


def test_the_form_shows_the_delays_of_what_was_typed(scene: Scene, ada: Person) -> None:
    assert "1 s, 2 s, 4 s, 8 s" in ada.get("/jobs/new")
    assert "no retry" in send(ada, scene, max_attempts="1", type="").text


@pytest.mark.parametrize("hostile", HOSTILE)
def test_what_was_typed_comes_back_as_text(scene: Scene, ada: Person, hostile: str) -> None:
    answer = send(
        ada, scene, type=hostile, payload=hostile, callback_url=hostile, idempotency_key=hostile, run_at=hostile
    )
    assert answer.status_code == 422
    # The fields themselves hold what was typed.
    assert_text_only(re.sub(r"<input[^>]*>|<textarea[^>]*>[^<]*</textarea>", "", answer.text))
    assert "<img" not in answer.text and "<svg onload" not in answer.text


def test_a_viewer_may_not_submit(app: Flask, scene: Scene) -> None:
    vic = Person(app, "vic", "viewer")
    vic.get("/jobs/new", status=403)
    assert send(vic, scene).status_code == 403
    assert scene.count("jobs") == 0


def test_the_form_says_so_when_there_is_no_client(app: Flask, ada: Person) -> None:
    assert "There is no client yet" in ada.get("/jobs/new")
