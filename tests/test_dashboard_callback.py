"""A call in the forms of jobs and cron entries: made whole, refused where the API refuses, left as it was, and never showing secrets."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import pytest
import redis
from flask import Flask
from sqlalchemy import Connection, Engine
from werkzeug.test import TestResponse

from app.callback import COLUMNS
from app.dashboard import header_lines, spans
from tests.api_calls import ApiCalls
from tests.conftest import make_api_key
from tests.factories import Scene
from tests.forms import refusals, values
from tests.pages import HOSTILE, Person, assert_text_only

HOOK = "http://127.0.0.1:9/hook"
DOTS = header_lines.HIDDEN
# As a browser sends the form when nothing but what must be was typed.
FIELDS = {"type": "email.send", "callback_url": HOOK, "payload": "{}"}
EXTRA = {"job": {"when": "now", "zone": "UTC"}, "cron": {"cron_expression": "30 2 * * *", "timezone": "UTC"}}
TABLE = {"job": "jobs", "cron": "cron_entries"}


@dataclass(frozen=True)
class Form:
    """One of the two forms that say what is called."""

    kind: str
    scene: Scene
    ada: Person

    def send(self, path: str | None = None, **fields: str) -> TestResponse:
        where = path or ("/jobs/new" if self.kind == "job" else "/cron/new")
        return self.ada.post(where, **{**FIELDS, **EXTRA[self.kind], "client": str(self.scene.client_id), **fields})

    def made(self, **fields: str) -> dict[str, Any]:
        answer = self.send(**fields)
        assert answer.status_code == 302, refusals(answer)
        return self.row()

    def row(self) -> dict[str, Any]:
        return dict(self.scene.all(TABLE[self.kind])[-1])

    def queue(self, row: Mapping[str, Any]) -> str:
        """The name of the queue it goes by."""
        if self.kind == "cron":
            return str(row["queue"])
        return next(queue["name"] for queue in self.scene.all("queues") if queue["id"] == row["queue_id"])

    def page(self, row: Mapping[str, Any], rest: str = "") -> str:
        return f"/{'jobs' if self.kind == 'job' else 'cron'}/{row['id']}{rest}"

    def store(self, **columns: Any) -> dict[str, Any]:
        """One as no form has made it."""
        if self.kind == "job":
            payload = columns.get("payload", '{"n": 1}')
            self.scene.job(
                "dead", type=" a b ", payload_bytes=0 if payload is None else len(payload.encode()), **columns
            )
        else:
            self.scene.entry("30 2 * * *", job_type=" a b ", **columns)
        return self.row()

    def api(self, members: dict[str, Any], api: ApiCalls) -> TestResponse:
        if self.kind == "job":
            return api.post("/v1/jobs", members)
        return api.post("/v1/cron-jobs", {"cron_expression": "30 2 * * *", "job_template": members})


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


@pytest.fixture(params=["job", "cron"])
def form(request: pytest.FixtureRequest, app: Flask, scene: Scene) -> Form:
    return Form(request.param, scene, Person(app, "ada", "operator"))


def test_a_form_that_says_nothing_of_it_makes_the_plain_call(form: Form) -> None:
    row = form.made()
    assert (row["method"], row["headers"], row["payload"], row["content_type"]) == ("POST", "[]", "{}", None)
    assert (row["timeout_seconds"], row["success_statuses"], row["retry"]) == (10.0, None, None)
    assert (row["on_success_url"], row["on_failure_url"], row["max_attempts"]) == (None, None, 5)


def test_everything_a_call_is_made_of(form: Form) -> None:
    row = form.made(
        method="PUT",
        headers="X-Tenant: 7\r\n\r\n  X-Empty:\r\nAuthorization: Bearer a:b\r\n",
        body_kind="text",
        body="\r\n<a/>\r\n",
        content_type="application/xml",
        timeout_seconds="1.5 min",
        success_statuses="2xx, 404 409 - 410",
        backoff="list",
        delays="5 s, 1 min, 2h",
        jitter="none",
        give_up_after_seconds="1 d",
        on_success_url="http://127.0.0.1:9/done",
        on_failure_url="http://127.0.0.2:9/dead",
        max_attempts="7",
    )
    assert (row["method"], row["payload"], row["content_type"]) == ("PUT", "\n<a/>\n", "application/xml")
    assert json.loads(row["headers"]) == [["X-Tenant", "7"], ["X-Empty", ""], ["Authorization", "Bearer a:b"]]
    assert (row["timeout_seconds"], row["success_statuses"], row["max_attempts"]) == (90.0, "200-299,404,409-410", 7)
    policy = json.loads(row["retry"])
    assert (policy["backoff"], policy["delays"], policy["jitter"]) == ("list", [5.0, 60.0, 7200.0], "none")
    assert policy["give_up_after_seconds"] == 86_400.0
    assert (row["on_success_url"], row["on_success_host"]) == ("http://127.0.0.1:9/done", "http://127.0.0.1:9")
    assert (row["on_failure_url"], row["on_failure_host"]) == ("http://127.0.0.2:9/dead", "http://127.0.0.2:9")
    page = html.unescape(form.ada.get(form.page(row)))
    for shown in (
        "PUT", "application/xml", "<a/>", "1 min 30 s", "200 to 299, 404, 409 to 410", "At most 7 attempts", "5 s, 1 min, 2 h",
        "None later than 1 d", "http://127.0.0.1:9/done", "http://127.0.0.2:9/dead", "X-Tenant", DOTS,
    ):  # fmt: skip
        assert shown in page, shown
    assert "Bearer" not in page


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_call_without_a_body(form: Form, method: str) -> None:
    row = form.made(method=method, body_kind="none", payload="{not even read")
    assert (row["method"], row["payload"], row["content_type"]) == (method, None, None)
    page = form.ada.get(form.page(row))
    assert "sent without a body" in page and f'<span class="mono">{method}</span>' in page
    if form.kind == "job":
        assert "--data" not in page and "Download" not in page
        form.ada.get(form.page(row, "/payload"), status=404)


@pytest.mark.parametrize(
    ("fields", "columns"),
    [
        ({"backoff": "fixed", "base_seconds": "2,5"}, {"backoff": "fixed", "base_seconds": 2.5, "jitter": "half"}),
        (
            {"backoff": "linear", "max_seconds": "1 h"},
            {"backoff": "linear", "base_seconds": 1.0, "max_seconds": 3600.0},
        ),
        ({"base_seconds": "10", "factor": "1.5"}, {"backoff": "exponential", "base_seconds": 10.0, "factor": 1.5}),
        # What means nothing for the backoff is not looked at.
        ({"backoff": "fixed", "factor": "x", "delays": "x", "max_seconds": ""}, {"backoff": "fixed", "factor": 2.0}),
        ({"backoff": "list", "delays": "0", "base_seconds": "x"}, {"backoff": "list", "delays": [0.0]}),
    ],
)
def test_each_kind_of_policy(form: Form, fields: dict[str, str], columns: dict[str, Any]) -> None:
    policy = json.loads(form.made(**fields)["retry"])
    assert {name: policy[name] for name in columns} == columns


POST = {"type": "t", "callback_url": HOOK, "payload": {}}
TEXT = {"type": "t", "callback_url": HOOK}


@pytest.mark.parametrize(
    ("fields", "members", "field", "words"),
    [
        ({"method": "TRACE"}, {**POST, "method": "TRACE"}, "method", "must be 'GET'"),
        ({"headers": "X-A"}, {**POST, "headers": "X-A"}, "headers", "Line 1 has no colon"),
        ({"headers": "X-A: 1\r\nHost: x"}, {**POST, "headers": {"Host": "x"}}, "headers", "must leave out Host"),
        ({"headers": "content-length: 1"}, {**POST, "headers": {"content-length": "1"}}, "headers", "connection"),
        ({"headers": "X-Job-ID: 1"}, {**POST, "headers": {"X-Job-ID": "1"}}, "headers", "sets it itself"),
        ({"headers": "X A: 1"}, {**POST, "headers": {"X A": "1"}}, "headers", "'X A' is none"),
        ({"headers": ": 1"}, {**POST, "headers": {"": "1"}}, "headers", "must have names"),
        ({"headers": "X: 1\r\nx: 2"}, {**POST, "headers": {"X": "1", "x": "2"}}, "headers", "x comes twice"),
        ({"headers": "X: a\0b"}, {**POST, "headers": {"X": "a\0b"}}, "headers", "control character"),
        ({"headers": "X: ☃"}, {**POST, "headers": {"X": "☃"}}, "headers", "Latin-1"),
        (
            {"headers": "\n".join(f"X-{n}: 1" for n in range(51))},
            {**POST, "headers": {f"X-{n}": "1" for n in range(51)}},
            "headers", "at most 50",
        ),
        ({"headers": f"X: {'a' * 8193}"}, {**POST, "headers": {"X": "a" * 8193}}, "headers", "8,192"),
        ({"body_kind": "none"}, TEXT, "body_kind", "Choose JSON or text"),
        ({"body_kind": "none", "method": "PATCH"}, {**TEXT, "method": "PATCH"}, "body_kind", "Choose JSON or text"),
        ({"body_kind": "json", "payload": " "}, TEXT, "payload", "any JSON value"),
        ({"body_kind": "json", "payload": "\u00a0{}"}, {**POST, "payload": float("nan")}, "payload", "not JSON"),
        ({"body_kind": "text", "body": "a\0"}, {**TEXT, "body": "a\0"}, "body", "NUL"),
        (
            {"body_kind": "text", "body": "a", "content_type": "xml"},
            {**TEXT, "body": "a", "content_type": "xml"},
            "content_type", "media type",
        ),
        ({"timeout_seconds": "0.05"}, {**POST, "timeout_seconds": 0.05}, "timeout_seconds", "0.1"),
        ({"timeout_seconds": "16 min"}, {**POST, "timeout_seconds": 960.0}, "timeout_seconds", "900"),
        ({"timeout_seconds": "soon"}, {**POST, "timeout_seconds": "soon"}, "timeout_seconds", "span of time"),
        ({"success_statuses": "100"}, {**POST, "success_statuses": [100]}, "success_statuses", "from 200 to 599"),
        ({"success_statuses": "299-200"}, {**POST, "success_statuses": ["299-200"]}, "success_statuses", "smaller"),
        ({"success_statuses": "all"}, {**POST, "success_statuses": ["all"]}, "success_statuses", "such as 204"),
        ({"max_attempts": "101"}, {**POST, "max_attempts": 101}, "max_attempts", "100"),
        ({"backoff": "random"}, {**POST, "retry": {"backoff": "random"}}, "backoff", "must be 'exponential'"),
        ({"jitter": "some"}, {**POST, "retry": {"jitter": "some"}}, "jitter", "must be 'full'"),
        ({"base_seconds": "31 d"}, {**POST, "retry": {"base_seconds": 2678400.0}}, "base_seconds", "2592000"),
        ({"factor": "0.5"}, {**POST, "retry": {"factor": 0.5}}, "factor", "greater than or equal to 1"),
        ({"factor": "two"}, {**POST, "retry": {"factor": "two"}}, "factor", "Give a number"),
        ({"max_seconds": "-1"}, {**POST, "retry": {"max_seconds": -1.0}}, "max_seconds", "span of time"),
        ({"backoff": "list", "delays": ""}, {**POST, "retry": {"backoff": "list"}}, "delays", "Give each wait"),
        ({"backoff": "list", "delays": "1 s, 31 d"}, {**POST, "retry": {"backoff": "list", "delays": [1.0, 2678400.0]}}, "delays", "Wait 2 must"),
        (
            {"backoff": "list", "delays": "1," * 101},
            {**POST, "retry": {"backoff": "list", "delays": [1.0] * 101}},
            "delays", "100",
        ),
        ({"give_up_after_seconds": "0"}, {**POST, "retry": {"give_up_after_seconds": 0.0}}, "give_up_after_seconds", "greater than 0"),
        ({"queue": "q" * 65}, {**POST, "queue": "q" * 65}, "queue", "at most 64"),
        ({"queue": "a\tb"}, {**POST, "queue": "a\tb"}, "queue", "control characters"),
        ({"priority": "10"}, {**POST, "priority": 10}, "priority", "less than or equal to 9"),
        ({"priority": "high"}, {**POST, "priority": "high"}, "priority", "whole number from 0 to 9"),
        ({"tags": "t" * 65}, {**POST, "tags": ["t" * 65]}, "tags", "at most 64"),
        ({"tags": "a,b,c,d,e,f,g,h,i,j,k"}, {**POST, "tags": list("abcdefghijk")}, "tags", "at most 10"),
        ({"on_success_url": "ftp://x/"}, {**POST, "on_success_url": "ftp://x/"}, "on_success_url", "https:// or http://"),
        ({"on_failure_url": "http://10.0.0.1/"}, {**POST, "on_failure_url": "http://10.0.0.1/"}, "on_failure_url", "may not be called"),
    ],
)  # fmt: skip
def test_what_the_api_refuses_the_form_refuses_at_its_field(
    form: Form, db_conn: Connection, app: Flask, fields: dict[str, str], members: dict[str, Any], field: str, words: str
) -> None:
    told = refusals(form.send(**fields))
    assert set(told) == {field} and words in told[field], told
    assert form.scene.count(TABLE[form.kind]) == 0
    api = ApiCalls(app.test_client(), make_api_key(db_conn, "programs"))
    assert form.api(members, api).status_code == 400


def test_what_is_folded_away_opens_when_it_says_something_or_is_wrong(form: Form) -> None:
    def opened(page: str) -> list[str]:
        return re.findall(r'<details class="folded" open><summary>([^<]*)', page)

    new = form.ada.get("/jobs/new" if form.kind == "job" else "/cron/new")
    assert len(re.findall('class="folded"', new)) == (6 if form.kind == "job" else 5) and opened(new) == []
    assert opened(form.send(headers="X: 1", type="").text) == ["Headers"]
    assert opened(form.send(timeout_seconds="x", jitter="full").text) == ["Time-out and success", "Retry policy"]
    assert opened(form.send(on_failure_url=HOOK, type="").text) == ["Tell how it ends"]
    assert opened(form.send(tags="a", type="").text) == ["Queue, priority and tags"]


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"payload": '{\r\n "a":\r1}', "max_attempts": 100},
        {"payload": "\r\n\n  text \r\r\n\t", "content_type": "text/plain; ", "timeout_seconds": 0.1},
        {"payload": "", "content_type": "text/plain; charset=utf-8", "timeout_seconds": 33.3},
        {"payload": None, "method": "GET", "success_statuses": "200-299"},
        {"payload": None, "method": "DELETE", "success_statuses": "204,404"},
        {"headers": json.dumps([["X-A", "  a  b "], ["X-Secret", " s "], ["Cookie", ""], ["x-b", "é: \u00a0"]], ensure_ascii=False, separators=(",", ":"))},
        {"retry": '{"backoff":"fixed","base_seconds":1e-07,"factor":7.5,"max_seconds":3.0,"jitter":"none","delays":[],"give_up_after_seconds":null}'},
        {"retry": '{"backoff":"list","base_seconds":5.0,"factor":2.0,"max_seconds":900.0,"jitter":"full","delays":[0.0,0.1,90061.5,86400.0],"give_up_after_seconds":1209600.0}'},
        {"on_success_url": "http://127.0.0.1:9/a?b=c&d", "on_success_host": "http://127.0.0.1:9"},
        {"priority": 0, "tags": ["a, b", " c ", "d"]},
    ],
)  # fmt: skip
def test_a_form_sent_back_as_it_was_changes_nothing(form: Form, columns: dict[str, Any]) -> None:
    before = form.store(callback_url=HOOK, callback_host="http://127.0.0.1:9", **columns)
    address = form.page(before, "/edit")
    answer = form.ada.post(address, **values(form.ada.get(address)))
    assert answer.status_code == 302, refusals(answer)
    after = form.row()
    assert after == before
    copied = form.ada.post(
        form.page({"id": "new"}), **values(form.ada.get(form.page({"id": "new"}, f"?from={before['id']}")))
    )
    assert copied.status_code == 302, refusals(copied)
    copy = form.row()
    assert copy["id"] != before["id"]
    assert {name: copy[name] for name in COLUMNS} == {name: before[name] for name in COLUMNS}


def test_queue_priority_and_tags_are_set_shown_copied_and_taken_away(form: Form, db_conn: Connection) -> None:
    row = form.made(queue=" mail/eu ", priority="9", tags="billing, eu ,, billing")
    assert (form.queue(row), row["priority"], row["tags"]) == ("mail/eu", 9, ["billing", "eu"])
    page = form.ada.get(form.page(row))
    assert "mail/eu</bdi>" in page and "priority 9" in page and "billing</bdi>, <bdi>eu</bdi>" in page
    assert f'href="/jobs/?queue=mail/eu&amp;client={form.scene.client_id}"' in page
    new = form.page({"id": "new"})
    assert form.ada.post(new, **values(form.ada.get(f"{new}?from={row['id']}"))).status_code == 302
    copy = form.row()
    assert copy["id"] != row["id"]
    assert (form.queue(copy), copy["priority"], copy["tags"]) == ("mail/eu", 9, ["billing", "eu"])
    address = form.page(copy, "/edit")
    shown = values(form.ada.get(address))
    assert form.ada.post(address, **{**shown, "queue": "", "priority": "", "tags": ""}).status_code == 302
    changed = form.row()
    assert (changed["priority"], changed["tags"]) == (5, [])
    # Where a job waits is settled with its submission.
    assert form.queue(changed) == ("mail/eu" if form.kind == "job" else "default")


@pytest.mark.parametrize(("kind", "field"), [("json", "payload"), ("text", "body")])
def test_takes_a_body_as_large_as_the_api_and_no_larger(form: Form, app: Flask, kind: str, field: str) -> None:
    most = app.extensions["settings"].max_body_bytes
    large = json.dumps("x" * (most - 2000)) if kind == "json" else "\N{SNOWMAN}" * ((most - 2000) // 3)
    row = form.made(body_kind=kind, **{field: large})
    assert row["payload"] == large
    told = refusals(
        form.send(body_kind=kind, **{field: large + "x" * 3000 if kind == "text" else json.dumps("x" * most)})
    )
    assert set(told) == {field} and "larger than" in told[field]


def test_a_field_that_is_emptied_is_as_at_first(form: Form) -> None:
    row = form.store(
        retry='{"backoff":"linear","base_seconds":5.0,"max_seconds":60.0}', timeout_seconds=30, success_statuses="204"
    )
    address = form.page(row, "/edit")
    names = ("base_seconds", "max_seconds", "timeout_seconds", "success_statuses", "max_attempts")
    assert form.ada.post(address, **{**values(form.ada.get(address)), **dict.fromkeys(names, "")}).status_code == 302
    row = form.row()
    assert (row["timeout_seconds"], row["success_statuses"], row["max_attempts"]) == (10.0, None, 5)
    policy = json.loads(row["retry"])
    assert (policy["backoff"], policy["base_seconds"], policy["max_seconds"]) == ("linear", 1.0, 900.0)


def test_values_that_may_be_secrets_are_shown_to_nobody_and_kept(form: Form, app: Flask) -> None:
    secrets = {
        "Authorization": "Bearer s3",
        "cookie": "a=s3",
        "X-Api-Key": "s3",
        "X-SIGNATURE": "s3",
        "my-Password": "s3",
    }
    headers = json.dumps([*map(list, secrets.items()), ["X-Open", "seen"]])
    row = form.store(headers=headers)
    for person in (form.ada, Person(app, "vic", "viewer"), Person(app, "root", "admin")):
        page = person.get(form.page(row))
        assert "s3" not in page and page.count(DOTS) == len(secrets) and "seen" in page
    edit = form.page(row, "/edit")
    fields = values(form.ada.get(edit))
    assert "s3" not in json.dumps(fields)
    # One header changed, one taken out, one put in: the others keep what nobody sees.
    lines = [line for line in fields["headers"].split("\r\n") if not line.startswith("cookie")]
    lines = ["X-Open: changed" if line.startswith("X-Open") else line for line in lines]
    assert form.ada.post(edit, **{**fields, "headers": "\r\n".join(["X-New: 1", *lines])}).status_code == 302
    kept = dict(json.loads(form.row()["headers"]))
    secrets.pop("cookie")
    assert kept == {"X-New": "1", **secrets, "X-Open": "changed"}
    # They go with their host, and to no other.
    moved = {**fields, "headers": values(form.ada.get(edit))["headers"]}
    for url in (
        "http://127.0.0.2:8080/hook",
        "https://127.0.0.1:8080/hook",
        "http://127.0.0.1:8081/hook",
        "http://127.0.0.1:8080@127.0.0.2/",
    ):
        assert "for its host" in refusals(form.ada.post(edit, **{**moved, "callback_url": url}))["headers"]
    assert form.ada.post(edit, **{**moved, "callback_url": "http://127.0.0.1:8080/other"}).status_code == 302
    assert dict(json.loads(form.row()["headers"])) == kept
    # The dots themselves are no value, neither under another name nor in a form that was filled from nothing.
    assert "hidden value" in refusals(form.ada.post(edit, **{**fields, "headers": f"X-Other-Key: {DOTS}"}))["headers"]
    assert "hidden value" in refusals(form.send(headers=f"Authorization: {DOTS}"))["headers"]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_what_was_typed_or_stored_is_text_alone(form: Form, hostile: str) -> None:
    names = ("method", "headers", "body_kind", "body", "content_type", "timeout_seconds", "success_statuses")
    names += (
        "backoff",
        "delays",
        "jitter",
        "base_seconds",
        "give_up_after_seconds",
        "on_success_url",
        "on_failure_url",
    )
    answer = form.send(**dict.fromkeys(names, hostile))
    assert answer.status_code == 422
    tags = r"<input[^>]*>|<textarea[^>]*>[^<]*</textarea>"
    assert_text_only(re.sub(tags, "", answer.text))
    assert "<img" not in answer.text and "<svg onload" not in answer.text
    latin = hostile.encode("latin-1", "ignore").decode("latin-1")
    row = form.store(
        payload=hostile,
        content_type=hostile,
        headers=json.dumps([["X-A", latin]]),
        on_success_url=hostile,
        on_failure_url=hostile,
    )
    assert_text_only(form.ada.get(form.page(row)))
    assert_text_only(re.sub(tags, "", form.ada.get(form.page(row, "/edit"))))


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"backoff": "list", "delays": "5 s, 1 min", "max_attempts": "4", "jitter": "none"}, "Retries wait 5 s, 1 min, 1 min: 2 min 05 s in all."),
        ({"backoff": "fixed", "base_seconds": "1 min", "max_attempts": "3", "jitter": "full"}, "1 min, 1 min: 2 min in all, each less a random part"),
        ({"backoff": "linear", "base_seconds": "2", "max_attempts": "4"}, "2 s, 4 s, 6 s: 12 s in all, less a random part of up to half"),
        ({"factor": "10", "max_seconds": "50", "max_attempts": "4"}, "1 s, 10 s, 50 s: 1 min 01 s"),
        ({"max_attempts": "9", "give_up_after_seconds": "10"}, "Retries wait 1 s, 2 s, 4 s: 7 s in all, less a random part of up to half. It gives up after attempt 4"),
        ({"base_seconds": "1 h", "give_up_after_seconds": "10"}, "no retry: the second would come more than 10 s after"),
        ({"delays": "x"}, "Retries wait 1 s, 2 s, 4 s, 8 s"),
        ({"backoff": "list", "delays": "x"}, "The waits: Give each wait"),
        ({"backoff": "list", "delays": "40 d"}, "The waits: Wait 1 must be"),
        ({"base_seconds": "<img>"}, "First wait: Give a span of time"),
        ({"factor": "0"}, "Factor: It must be greater"),
        ({"backoff": "<img>"}, "Waits between attempts: It must be"),
    ],
)  # fmt: skip
def test_the_planned_delays_follow_what_is_typed(app: Flask, typed: dict[str, str], words: str) -> None:
    part = Person(app, "vic", "viewer").fragment(f"/jobs/new/planned-delays?{urlencode(typed)}")
    assert "<img>" not in part
    assert words in re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", html.unescape(part)))


@pytest.mark.parametrize(
    ("text", "seconds", "shown"),
    [
        ("10", 10.0, "10 s"), ("0.1 s", 0.1, "0.1 s"), ("2,5s", 2.5, "2.5 s"), ("90", 90.0, "90 s"), ("1.5 min", 90.0, "90 s"),
        ("15m", 900.0, "15 min"), (" 2 Hours ", 7200.0, "2 h"), ("30d", 2_592_000.0, "30 d"), ("0", 0.0, "0 s"),
        ("1e-07", 1e-07, "1e-07 s"), ("86400", 86_400.0, "1 d"), ("0.1 min", 6.0, "6 s"),
    ],
)  # fmt: skip
def test_spans_are_read_as_they_are_shown(text: str, seconds: float, shown: str) -> None:
    assert spans.read(text) == seconds and spans.shown(seconds) == shown and spans.read(shown) == seconds


@pytest.mark.parametrize("text", ["", "x", "-1", "1 w", "1 s 2", "٣", "1e999", "nan", "inf", "1.2.3", "9" * 21])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="such as 10 s"):
        spans.read(text)
