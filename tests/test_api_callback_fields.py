"""Each field of a call, at every place that takes one: a job, and a cron entry made, patched, put and applied from a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine, text

from app.callback_url import CallbackUrlRefused, parse
from app.config import Settings
from app.retry import RetryAt, next_attempt
from app.retry_policy import policy_of, text_of
from tests.api_calls import HOOK, ApiCalls, error
from tests.eventually import eventually
from tests.factories import Scene, answer
from tests.test_callback_url import (
    CHARACTERS,
    NOT_A_WEB_URL,
    NUMBERS,
    PORTS,
    PRIVATE_NAMES,
    USERINFO_AND_FRAGMENT,
)
from tests.test_cli import Commands
from tests.test_worker_life import Worker
from worker.recorder import Recorder

BASE = {"type": "t", "callback_url": HOOK, "payload": {}}
SCHEDULE = {"cron_expression": "30 2 * * *"}
PLACES = ("job", "create", "patch", "put", "file")
# What a place answers: None when it took the call, else the message of its refusal.
Take = Callable[[dict[str, Any]], str | None]


@pytest.fixture
def api(client: FlaskClient, api_key: str) -> ApiCalls:
    return ApiCalls(client, api_key)


@pytest.fixture
def take(request: pytest.FixtureRequest, app: Flask, api: ApiCalls, tmp_path: Path) -> Take:
    """Gives a call to the place that the test is parametrised with."""

    def by_file(call: dict[str, Any]) -> str | None:
        path = tmp_path / "cron.yaml"
        # JSON is YAML.
        path.write_text(json.dumps({"cron_jobs": [{"name": "n", **SCHEDULE, "job_template": call}]}), encoding="utf-8")
        result = Commands(app)("cron", "apply", str(path), "--client-name", "tests")
        return None if result.exit_code == 0 else str(result.output)

    def by_call(call: dict[str, Any]) -> str | None:
        definition = {"name": "n", **SCHEDULE, "job_template": call}
        if request.param == "job":
            told = api.post("/v1/jobs", call)
        elif request.param == "create":
            told = api.post("/v1/cron-jobs", definition)
        elif request.param == "put":
            told = api.call("PUT", "/v1/cron-jobs/by-name/n", json=definition)
        else:
            address = api.post("/v1/cron-jobs", {**definition, "job_template": BASE}).headers["Location"]
            told = api.patch(address, {"job_template": call})
        return None if told.status_code in (200, 201, 204) else str(error(told, 400)["message"])

    return by_file if request.param == "file" else by_call


def stored(conn: Connection) -> dict[str, Any]:
    """The one job or cron entry there is."""
    for table in ("jobs", "cron_entries"):
        row = conn.execute(text(f"SELECT * FROM {table}")).mappings().one_or_none()
        if row is not None:
            return dict(row)
    raise AssertionError("nothing is stored")


def call(fields: dict[str, Any]) -> dict[str, Any]:
    """BASE with these fields; without its payload when there is a body, or the payload is `...`."""
    made = {**BASE, **fields}
    if made["payload"] is ... or ("body" in fields and "payload" not in fields):
        del made["payload"]
    return made


FIFTY = {f"X-{number}": "v" for number in range(50)}
LIST_POLICY = {"backoff": "list", "delays": [0, 1.5, 2592000], "jitter": "full"}
TAKEN: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {},
        {
            "method": "POST", "headers": "[]", "payload": "{}", "content_type": None, "timeout_seconds": 10.0, "retry": None,
            "success_statuses": None, "max_attempts": 5, "on_success_url": None, "on_failure_host": None,
        },
    ),
    *(({"method": method}, {"method": method, "payload": "{}"}) for method in ("GET", "POST", "PUT", "PATCH", "DELETE")),
    *(({"method": method, "payload": ...}, {"method": method, "payload": None}) for method in ("GET", "DELETE")),
    ({"method": "GET", "body": "x"}, {"payload": "x", "content_type": "text/plain; charset=utf-8"}),
    ({"payload": None}, {"payload": "null", "content_type": None}),
    ({"body": ""}, {"payload": "", "content_type": "text/plain; charset=utf-8"}),
    ({"body": "<é/>\n", "content_type": "application/xml"}, {"payload": "<é/>\n", "content_type": "application/xml"}),
    ({"body": "a=1", "content_type": "a/b; c=\"d\""}, {"content_type": "a/b; c=\"d\""}),
    ({"headers": {}}, {"headers": "[]"}),
    ({"headers": {"X-A": " v ", "X-B": ""}}, {"headers": '[["X-A"," v "],["X-B",""]]'}),
    ({"headers": {"x!#$%&'*+.^_`|~9": "caf\u00e9 \u00ff"}}, {"headers": '[["x!#$%&\'*+.^_`|~9","caf\u00e9 \u00ff"]]'}),
    ({"headers": {"Authorization": "Bearer x", "Accept": "a/b", "Cookie": "a=b"}}, {}),
    ({"headers": FIFTY}, {}),
    ({"headers": {"X-A": "v" * 8192, "X" * 128: "v"}}, {}),
    ({"timeout_seconds": 0.1}, {"timeout_seconds": 0.1}),
    ({"timeout_seconds": 900}, {"timeout_seconds": 900.0}),
    ({"success_statuses": [204]}, {"success_statuses": "204"}),
    ({"success_statuses": ["2xx"]}, {"success_statuses": "200-299"}),
    ({"success_statuses": [404, 200.0, "201-203", "203-210", "3xx"]}, {"success_statuses": "200-210,300-399,404"}),
    ({"success_statuses": [599, "500-598"]}, {"success_statuses": "500-599"}),
    ({"max_attempts": 100}, {"max_attempts": 100}),
    ({"retry": {}}, {"retry": None}),
    ({"retry": {"backoff": "exponential", "base_seconds": 2, "factor": 1.5, "max_seconds": 60, "jitter": "none"}}, {}),
    ({"retry": {"factor": 1000, "base_seconds": 2592000, "max_seconds": 2592000}}, {}),
    ({"retry": {"backoff": "linear", "base_seconds": 0}}, {}),
    ({"retry": {"backoff": "fixed", "base_seconds": 2592000, "give_up_after_seconds": 31536000}}, {}),
    ({"retry": LIST_POLICY}, {}),
    ({"retry": {"backoff": "list", "delays": [1] * 100}}, {}),
    ({"on_success_url": HOOK}, {"on_success_url": HOOK, "on_success_host": "http://127.0.0.1:9", "on_failure_url": None}),
    ({"on_failure_url": "http://[::1]:9/"}, {"on_failure_url": "http://[::1]:9/", "on_success_host": None}),
]  # fmt: skip
OURS = (
    "Content-Type", "content-type", "IDEMPOTENCY-KEY", "User-Agent", "webhook-id", "Webhook-Signature", "webhook-timestamp",
    "X-Job-Attempt", "x-job-id", "X-JOB-MAX-ATTEMPTS", "X-Job-Type",
)  # fmt: skip
FRAMING = (
    "Host", "host", "Content-Length", "TRANSFER-ENCODING", "Connection", "Expect", "expect", "Keep-Alive", "TE", "Trailer", "Upgrade",
    "Proxy-Authorization", "proxy-connection",
)  # fmt: skip
REFUSED: list[tuple[dict[str, Any], str]] = [
    *(({"method": method}, "method") for method in ("HEAD", "post", "", "TRACE", 1, None)),
    *(({"method": method, "payload": ...}, "payload") for method in ("POST", "PUT", "PATCH")),
    ({"payload": ...}, "payload"),
    ({"payload": 1, "body": "x"}, "either payload or body"),
    ({"content_type": "a/b"}, "content_type goes with body"),
    ({"method": "GET", "payload": ..., "content_type": "a/b"}, "content_type goes with body"),
    ({"body": None}, "body"),
    ({"body": {}}, "body"),
    ({"body": "a\u0000b"}, "body"),
    *(({"body": "x", "content_type": value}, "content_type") for value in ("", "xml", "a/b\r\nX: y", "a/é", "a/" + "b" * 254, None, 1)),
    *(({"headers": value}, "headers") for value in (None, [], "X-A: b", {"X-A": 1}, {"X-A": None}, {"X-A": ["b"]})),
    ({"headers": {**FIFTY, "X-50": "v"}}, "headers"),
    *(({"headers": {name: "v"}}, "headers") for name in ("", " ", "X A", "X:A", "X-A\n", "\u00e9", "X(A)", "X@A", "X" * 129)),
    *(({"headers": {"X-A": f"a{sign}b"}}, "headers") for sign in ("\r\n", "\r", "\n", "\u0000", "\t", "\u001f", "\u007f", "\u0085")),
    ({"headers": {"X-A": "\u20ac"}}, "headers"),
    ({"headers": {"X-A": "v" * 8193}}, "headers"),
    ({"headers": {"X-A": "1", "x-a": "2"}}, "headers"),
    *(({"headers": {name: "v"}}, "headers") for name in (*OURS, *FRAMING)),
    *(({"timeout_seconds": value}, "timeout_seconds") for value in (0, 0.09, 900.5, -1, "10", True, None)),
    *(
        ({"success_statuses": value}, "success_statuses")
        for value in ([], 200, "2xx", [199], [600], [100], ["1xx"], ["6xx"], ["2XX"], ["299-200"], ["200-"], ["200-600"], [True],
                      [200.5], [None], [[200]], [" 200"], [200] * 101, None)
    ),
    *(
        ({"retry": value}, "retry")
        for value in (
            None, [], "exponential", {"backoff": "none"}, {"backoff": None}, {"base": 1}, {"base_seconds": -1},
            {"base_seconds": 2592001}, {"base_seconds": "1"}, {"base_seconds": True}, {"factor": 0.5}, {"factor": 1001},
            {"max_seconds": -1}, {"max_seconds": 2592001}, {"jitter": "some"}, {"delays": [1]}, {"backoff": "fixed", "delays": [1]},
            {"backoff": "list"}, {"backoff": "list", "delays": []}, {"backoff": "list", "delays": [1] * 101},
            {"backoff": "list", "delays": [-1]}, {"backoff": "list", "delays": ["1"]}, {"backoff": "list", "delays": 1},
            {"backoff": "list", "delays": [2592001]}, {"give_up_after_seconds": 0}, {"give_up_after_seconds": 31536001},
            {"give_up_after_seconds": None},
        )
    ),
    *(
        ({f"{name}_url": value}, f"{name}_url")
        for name in ("on_success", "on_failure")
        for value in ("http://10.0.0.1/", "http://169.254.169.254/", "http://[::ffff:10.0.0.1]/", "http://2130706433.0/", "ftp://127.0.0.1/",
                      "http://u:p@127.0.0.1/", "http://127.0.0.1/#f", "", "/hook", None, 1, "http://127.0.0.1/" + "a" * 2048)
    ),
    ({"max_attempts": 101}, "max_attempts"),
    ({"on_done_url": HOOK}, "on_done_url"),
]  # fmt: skip


def named(case: Any) -> str:
    return ascii(case)[:60]


@pytest.mark.parametrize("take", PLACES, indirect=True)
@pytest.mark.parametrize(("fields", "columns"), TAKEN, ids=named)
def test_it_is_taken_and_stored_in_one_spelling(
    take: Take, db_conn: Connection, fields: dict[str, Any], columns: dict[str, Any]
) -> None:
    assert take(call(fields)) is None
    row = stored(db_conn)
    assert {name: row[name] for name in columns} == columns


@pytest.mark.parametrize("take", PLACES, indirect=True)
@pytest.mark.parametrize(("fields", "field"), REFUSED, ids=named)
def test_it_is_refused_by_name_and_nothing_is_stored(
    take: Take, db_conn: Connection, fields: dict[str, Any], field: str
) -> None:
    told = take(call(fields))
    assert told is not None and field in told
    assert "\u0000" not in told and len(told) < 600
    assert db_conn.execute(text("SELECT count(*) FROM jobs")).scalar_one() == 0
    kept = db_conn.execute(text("SELECT payload, method, headers FROM cron_entries")).all()
    assert [tuple(row) for row in kept] in ([], [("{}", "POST", "[]")])


@pytest.mark.parametrize("fields", [fields for fields, _ in TAKEN], ids=named)
def test_a_template_can_be_sent_back_as_it_is_shown(api: ApiCalls, db_conn: Connection, fields: dict[str, Any]) -> None:
    address = api.post("/v1/cron-jobs", {"name": "n", **SCHEDULE, "job_template": call(fields)}).headers["Location"]
    before = stored(db_conn)
    template = api.get(address).get_json()["job_template"]
    put = api.call("PUT", "/v1/cron-jobs/by-name/n", json={**SCHEDULE, "job_template": template})
    assert put.status_code == 200
    assert stored(db_conn) == before, "the same again changes nothing"
    assert api.patch(address, {"job_template": template}).status_code == 204
    assert api.get(address).get_json()["job_template"] == template


@pytest.mark.parametrize("fields", [fields for fields, _ in TAKEN], ids=named)
def test_a_job_can_be_changed_to_what_it_shows(api: ApiCalls, db_conn: Connection, fields: dict[str, Any]) -> None:
    job_id = api.post("/v1/jobs", {**call(fields), "delay_seconds": 3600}).get_json()["id"]
    before = stored(db_conn)
    shown = api.get(f"/v1/jobs/{job_id}").get_json()
    change = {
        name: shown[name] for name in ("method", "headers", "timeout_seconds", "max_attempts", "success_statuses")
    }
    change |= {name: shown[name] for name in ("on_success_url", "on_failure_url")}
    change["retry"] = {name: value for name, value in shown["retry"].items() if value is not None}
    if shown["body"] is None:
        change |= {"payload": shown["payload"]} if shown["content_type"] else {"body": None}
    else:
        change |= {"body": shown["body"], "content_type": shown["content_type"]}
    answer = api.patch(f"/v1/jobs/{job_id}", change)
    assert answer.status_code == 200, answer.get_data(as_text=True)
    may_differ = {"updated_at", "success_statuses"}
    after = stored(db_conn)
    assert {name for name in after if after[name] != before[name]} <= may_differ
    assert {**answer.get_json(), "updated_at": ""} == {**shown, "updated_at": ""}


def is_refused(url: str, settings: Settings) -> bool:
    try:
        parse(url, settings.allowed_callback_cidrs)
    except CallbackUrlRefused:
        return True
    return False


@pytest.mark.parametrize("field", ["callback_url", "on_success_url", "on_failure_url"])
def test_no_address_that_is_refused_at_submit_gets_in_by_a_change(
    api: ApiCalls, db_conn: Connection, settings: Settings, field: str
) -> None:
    job_id = api.submitted(delay_seconds=3600)
    before = stored(db_conn)
    hosts = (f"http://{host}/" for host in (*NUMBERS, *PRIVATE_NAMES))
    listed = [*NOT_A_WEB_URL, *CHARACTERS, *USERINFO_AND_FRAGMENT, *PORTS, *hosts]
    # Loopback is open here, and so are some names that lead there.
    urls = [url for url in listed if is_refused(url, settings)]
    assert len(urls) > 150
    for url in urls:
        assert api.patch(f"/v1/jobs/{job_id}", {field: url}).status_code == 400, ascii(url)
        assert api.submit(**{field: url}).status_code == 400, ascii(url)
    assert stored(db_conn) == before


# Idempotency


@pytest.mark.parametrize(
    "other",
    [
        {"method": "PUT"}, {"headers": {"X-A": "2"}}, {"headers": {}}, {"payload": "x"}, {"payload": None}, {"body": "y"},
        {"body": "x", "content_type": "a/b"}, {"timeout_seconds": 11}, {"success_statuses": ["2xx", 404]}, {"retry": {"jitter": "none"}},
        {"on_success_url": f"{HOOK}2"}, {"on_failure_url": HOOK}, {"max_attempts": 4},
    ],
    ids=str,
)  # fmt: skip
def test_a_key_tells_requests_apart_by_every_field(api: ApiCalls, other: dict[str, Any]) -> None:
    first = {
        "body": "x",
        "headers": {"X-A": "1"},
        "on_success_url": HOOK,
        "success_statuses": ["2xx"],
        "idempotency_key": "k",
    }
    assert api.post("/v1/jobs", call(first)).status_code == 201
    # The same in other words.
    same = {"timeout_seconds": 10, "success_statuses": ["250-299", "200-249"], "retry": {"factor": 2}, "method": "POST"}
    same |= {"content_type": "text/plain; charset=utf-8"}
    assert api.post("/v1/jobs", call({**first, **same})).status_code == 200
    changed = {name: value for name, value in first.items() if name != "body" or "payload" not in other}
    told = error(api.post("/v1/jobs", call({**changed, **other})), 409)
    assert told["code"] == "IDEMPOTENCY_KEY_CONFLICT"


# Retry policies as they are stored

POLICIES = [fields["retry"] for fields, _ in TAKEN if "retry" in fields]
UNREADABLE = [
    "", "no json", "null", "[]", "7", '{"backoff":"other"}', '{"backoff":"list"}', '{"backoff":"list","delays":["x"]}',
    '{"backoff":"list","delays":[1,-1]}', '{"backoff":"list","delays":7}', '{"unknown":1}', '{"base_seconds":"1"}', '{"base_seconds":NaN}',
    '{"factor":"x"}', '{"max_seconds":null}', '{"jitter":"other"}', '{"give_up_after_seconds":"60"}', '{"give_up_after_seconds":NaN}',
]  # fmt: skip


@pytest.mark.parametrize("policy", POLICIES, ids=named)
@pytest.mark.parametrize("attempt", [1, 2_000, 10**9])
def test_no_attempt_number_overflows_a_policy_that_was_taken(
    api: ApiCalls, db_conn: Connection, policy: dict[str, Any], attempt: int
) -> None:
    job_id = api.submitted(retry=policy, max_attempts=100)
    assert api.get(f"/v1/jobs/{job_id}").get_json()["retry"].items() >= policy.items()
    read = policy_of(stored(db_conn)["retry"])
    assert text_of(read) == stored(db_conn)["retry"]
    now = stored(db_conn)["created_at"]
    following = next_attempt(
        read,
        attempt,
        attempt + 1,
        status_code=500,
        error_class="http_5xx",
        headers=(),
        first_due_at=now,
        now=now,
        rand=0.999,
    )
    assert isinstance(following, RetryAt) and 0 <= following.delay_seconds <= 2_592_000


@pytest.fixture
def worker(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Worker:
    return Worker(Scene.on(engine, redis_client, db_conn))


@pytest.fixture
def recorder(worker: Worker) -> Iterator[Recorder]:
    worker.heartbeat.register()
    recorder = Recorder(stores=worker.scene.stores, clock=worker.scene.clock(), hands=worker.hands)
    recorder.start()
    yield recorder
    recorder.close()
    recorder.join(5)


def test_a_stored_policy_that_cannot_be_used_leaves_its_job_retryable(worker: Worker, recorder: Recorder) -> None:
    ids = [worker.scene.job(retry=retry) for retry in UNREADABLE]
    recorder.answered([(claim, answer("http_5xx")) for claim in worker.hold(*ids)])
    eventually(lambda: recorder.is_idle and len(worker.hands) == 0)
    for job_id in ids:
        row = worker.scene.row(job_id)
        assert (row["status"], row["attempts"]) == ("scheduled", 1), row["retry"]
        assert 0.4 < (row["run_at"] - row["updated_at"]).total_seconds() <= 1


@pytest.mark.parametrize("retry", UNREADABLE)
def test_a_job_whose_policy_cannot_be_used_can_be_shown(api: ApiCalls, db_conn: Connection, retry: str) -> None:
    job_id = api.submitted()
    db_conn.execute(text("UPDATE jobs SET retry = :retry"), {"retry": retry})
    shown = api.get(f"/v1/jobs/{job_id}").get_json()
    assert shown["retry"]["backoff"] == "exponential" and len(shown["planned_attempts"]) == 4
