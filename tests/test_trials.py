"""POST /v1/test-callback: one request, now, as a delivery makes it; nothing of it is stored."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Connection, text
from standardwebhooks import Webhook

from app import trials
from app.callbacks import trial
from tests.api_calls import HOOK, ApiCalls, error
from tests.conftest import make_api_key
from tests.delivery import answering, hanging, keeping_alive, receiver, resolving, split
from tests.eventually import eventually
from tests.processes import Processes

PATH = "/v1/test-callback"
TABLES = ("jobs", "executions", "minute_stats", "audit_log")


@pytest.fixture
def api(client: FlaskClient, api_key: str) -> ApiCalls:
    return ApiCalls(client, api_key)


def tried(api: ApiCalls, url: str, **fields: Any) -> dict[str, Any]:
    answer = api.post(PATH, {"callback_url": url, **fields})
    assert answer.status_code == 200, answer.get_data(as_text=True)
    told: dict[str, Any] = answer.get_json()
    return told


def test_it_sends_one_signed_request_and_tells_what_came_back(api: ApiCalls, db_conn: Connection) -> None:
    raw = b"HTTP/1.1 404 Not Found\r\nX-Why: gone\r\nContent-Length: 4\r\nConnection: close\r\n\r\nno\0e"
    with receiver(answering(raw)) as made:
        told = tried(api, made.url, payload={"big": 12345678901234567890}, headers={"X-Mine": ""})
    assert len(made.requests) == 1
    line, headers, body = split(made.requests[0])
    fields = {name.lower(): value for name, value in headers}
    assert (line, body) == ("POST /hook HTTP/1.1", b'{"big": 12345678901234567890}')
    names = ("x-job-type", "x-job-attempt", "x-job-max-attempts", "content-type", "x-mine")
    assert [fields[name] for name in names] == ["test", "1", "1", "application/json", ""]
    assert fields["x-job-id"] == fields["webhook-id"] == fields["idempotency-key"]
    Webhook(db_conn.execute(text("SELECT signing_secret FROM clients")).scalar_one()).verify(body, fields)
    timings = told.pop("timings")
    assert list(timings) == ["connect", "first_byte", "total"]
    assert list(timings.values()) == sorted(timings.values())
    assert told.pop("started_at") <= told.pop("finished_at")
    assert told == {
        "status": "failed",
        "status_code": 404,
        "error_class": "http_4xx",
        "error": "The receiver answered 404 Not Found.",
        "response_headers": [["X-Why", "gone"], ["Content-Length", "4"], ["Connection", "close"]],
        "response_body": "no\ufffde",
        "response_truncated": False,
    }


def test_each_has_an_id_of_its_own(api: ApiCalls) -> None:
    with receiver(keeping_alive) as made:
        for _ in range(2):
            assert tried(api, made.url)["status"] == "succeeded"
    first, second = (dict(split(request)[1])["X-Job-ID"] for request in made.requests)
    assert first != second


def test_nothing_is_stored(api: ApiCalls, db_conn: Connection) -> None:
    with receiver(keeping_alive) as made:
        tried(api, made.url)
        tried(api, made.url, success_statuses=[201])
    assert len(made.requests) == 2
    assert [db_conn.execute(text(f"SELECT count(*) FROM {table}")).scalar_one() for table in TABLES] == [0, 0, 0, 0]


def test_while_the_old_secret_is_valid_both_sign(api: ApiCalls, db_conn: Connection) -> None:
    old, new = db_conn.execute(
        text(
            "UPDATE clients SET previous_signing_secret = signing_secret, signing_secret = :new,"
            " previous_secret_expires_at = punctual_now() + interval '1 hour'"
            " RETURNING previous_signing_secret, signing_secret"
        ),
        {"new": "whsec_" + "QUFB" * 8},
    ).one()
    with receiver(keeping_alive) as made:
        tried(api, made.url)
        db_conn.execute(text("UPDATE clients SET previous_secret_expires_at = punctual_now()"))
        tried(api, made.url)
    _, headers, body = split(made.requests[0])
    fields = {name.lower(): value for name, value in headers}
    for secret in (old, new):
        Webhook(secret).verify(body, fields)
    assert len(dict(split(made.requests[1])[1])["webhook-signature"].split()) == 1


@pytest.mark.parametrize(
    ("fields", "body", "content_type"),
    [
        ({}, b"{}", "application/json"),
        ({"payload": None, "method": "PUT"}, b"{}", "application/json"),
        ({"method": "GET"}, b"", None),
        ({"method": "DELETE"}, b"", None),
        ({"method": "GET", "body": "<a/>", "content_type": "application/xml"}, b"<a/>", "application/xml"),
        ({"body": "é"}, "é".encode(), "text/plain; charset=utf-8"),
        ({"body": ""}, b"", "text/plain; charset=utf-8"),
    ],
)
def test_what_is_sent_when_parts_are_left_out(
    api: ApiCalls, fields: dict[str, Any], body: bytes, content_type: str | None
) -> None:
    given = {name: value for name, value in fields.items() if value is not None}
    with receiver(keeping_alive) as made:
        assert tried(api, made.url, **given)["status"] == "succeeded"
    line, headers, sent = split(made.requests[0])
    assert (sent, dict(headers).get("Content-Type")) == (body, content_type)
    assert line.startswith(f"{fields.get('method', 'POST')} ")


def test_its_deadline_ends_it(api: ApiCalls) -> None:
    with receiver(hanging) as made:
        told = tried(api, made.url, timeout_seconds=0.2)
    assert (told["status"], told["error_class"], told["error"]) == ("timed_out", "timeout", "No answer within 0.2 s.")
    assert 190 < told["timings"]["total"] < 3000


def test_a_hanging_lookup_ends_at_the_deadline_too(api: ApiCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    hang = threading.Event()

    def lookup(*_arguments: object, **_options: object) -> list[Any]:
        hang.wait(20)
        return []

    monkeypatch.setattr(trial, "getaddrinfo", lookup)
    told = tried(api, "http://hangs.example/", timeout_seconds=0.2)
    assert (told["error_class"], told["error"]) == ("timeout", "The host name was not looked up within 0.2 s.")
    # It is over for who asked; its thread is not, and counts among those of all.
    assert trials._threads.under_way == 1
    hang.set()
    eventually(lambda: trials._threads.under_way == 0)


@pytest.mark.parametrize(
    "addresses", [("10.0.0.1",), ("::ffff:10.0.0.1",), ("169.254.169.254",), ("127.0.0.1", "10.0.0.1")]
)
def test_a_name_that_leads_inwards_is_blocked_and_no_address_is_told(
    api: ApiCalls, monkeypatch: pytest.MonkeyPatch, addresses: tuple[str, ...]
) -> None:
    monkeypatch.setattr(trial, "getaddrinfo", resolving(*addresses))
    with receiver(keeping_alive) as canary:
        answer = api.post(PATH, {"callback_url": f"http://inwards.example:{canary.port}/"})
        assert canary.accepted == 0
    assert (answer.get_json()["status"], answer.get_json()["status_code"]) == ("blocked", None)
    assert not any(address in answer.get_data(as_text=True) for address in addresses)


def test_a_name_is_looked_up_and_its_time_told(api: ApiCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "getaddrinfo", resolving("127.0.0.1"))
    with receiver(keeping_alive) as made:
        told = tried(api, f"http://somewhere.example:{made.port}/")
    assert (told["status"], list(told["timings"])) == ("succeeded", ["dns", "connect", "first_byte", "total"])


def test_a_name_that_does_not_resolve_is_a_dns_failure(api: ApiCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    def lookup(*_arguments: object, **_options: object) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(trial, "getaddrinfo", lookup)
    told = tried(api, "http://missing.example/")
    assert (told["error_class"], told["status_code"]) == ("dns", None)


def test_a_redirect_is_not_followed(api: ApiCalls) -> None:
    with receiver(keeping_alive) as canary:
        location = f"Location: http://127.0.0.1:{canary.port}/\r\n".encode()
        with receiver(answering(b"HTTP/1.1 302 Found\r\n" + location + b"Content-Length: 0\r\n\r\n")) as made:
            assert tried(api, made.url)["error_class"] == "redirect"
        assert canary.accepted == 0


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"callback_url": "http://10.0.0.1/"}, "callback_url"),
        ({"callback_url": "ftp://example.com/"}, "callback_url"),
        ({"callback_url": "http://user@example.com/"}, "callback_url"),
        ({"timeout_seconds": 30.1}, "timeout_seconds"),
        ({"timeout_seconds": 0.09}, "timeout_seconds"),
        ({"headers": {"Host": "x"}}, "headers"),
        ({"payload": 1, "body": "1"}, "body"),
        ({"method": "HEAD"}, "method"),
        ({"type": "mine"}, "type"),
        ({"max_attempts": 3}, "max_attempts"),
    ],
)
def test_what_is_refused(api: ApiCalls, fields: dict[str, Any], field: str) -> None:
    told = error(api.post(PATH, {"callback_url": HOOK, **fields}), 400)
    assert told["details"][0]["field"] == field
    assert "10.0.0.1" not in told["message"]


def test_the_quota_counts_it(client: FlaskClient, db_conn: Connection) -> None:
    api = ApiCalls(client, make_api_key(db_conn, "small", rate_limit_per_minute=2))
    with receiver(keeping_alive) as made:
        for _ in range(2):
            tried(api, made.url)
        error(api.post(PATH, {"callback_url": made.url}), 429)
    assert len(made.requests) == 2


def test_a_client_has_four_under_way_and_others_theirs(app: Flask, api_key: str, db_conn: Connection) -> None:
    other = make_api_key(db_conn, "other")

    def ask(key: str, url: str) -> int:
        with app.app_context():
            calls = ApiCalls(app.test_client(), key)
            return calls.post(PATH, {"callback_url": url, "timeout_seconds": 20.0}).status_code

    with ThreadPoolExecutor(4) as pool, receiver(keeping_alive) as quick:
        with receiver(hanging) as slow:
            asked = [pool.submit(ask, api_key, slow.url) for _ in range(trials.MOST_OF_A_CLIENT)]
            eventually(lambda: len(slow.requests) == trials.MOST_OF_A_CLIENT)
            refused = ApiCalls(app.test_client(), api_key).post(PATH, {"callback_url": quick.url})
            assert error(refused, 429)["message"] == trials.BUSY
            assert refused.headers["Retry-After"] == "1"
            assert ask(other, quick.url) == 200
        assert [each.result() for each in asked] == [200] * len(asked)
        assert ask(api_key, quick.url) == 200


def test_the_real_web_process_goes_on_meanwhile(processes: Processes, api_key: str) -> None:
    url = processes.web()
    headers = {"Authorization": f"Bearer {api_key}", "Connection": "close"}

    def ask(where: str) -> dict[str, Any]:
        body = {"callback_url": where, "timeout_seconds": 20}
        answer: dict[str, Any] = requests.post(f"{url}{PATH}", json=body, headers=headers, timeout=30).json()
        return answer

    with ThreadPoolExecutor(3) as pool, receiver(keeping_alive) as quick:
        with receiver(hanging) as slow:
            asked = [pool.submit(ask, slow.url) for _ in range(3)]
            eventually(lambda: len(slow.requests) == 3)
            assert ask(f"http://localhost:{quick.port}/")["status"] == "succeeded"
            assert ask("http://no-such-name.invalid/")["error_class"] == "dns"
            assert not any(each.done() for each in asked)
        assert {each.result()["error_class"] for each in asked} == {"protocol"}
    assert "Traceback" not in processes.children[0].log.read_text()


UNDER_GEVENT = """
from gevent import monkey; monkey.patch_all()
import sys, time, gevent
from datetime import datetime, UTC
from ipaddress import ip_network
from app.callbacks import trial
from app.config import Settings
from app.native_threads import NativeThreads
settings = Settings(allowed_callback_cidrs=(ip_network("127.0.0.0/8"), ip_network("::1/128")))
threads = NativeThreads(8)
def ask(url):
    request = trial.TrialRequest(callback_url=url, timeout_seconds=1.0)
    return trial.send(settings, request.claim(1, (), datetime(2026, 12, 1, tzinfo=UTC)), threads)
began_at = time.monotonic()
slow = [gevent.spawn(ask, sys.argv[1]) for _ in range(4)]
gevent.sleep(0.1)
quick = ask(sys.argv[2])
print(time.monotonic() - began_at < 0.9, quick.error, *(each.get().error_class for each in slow), threads.under_way)
"""


def test_under_gevent_other_requests_go_on_meanwhile() -> None:
    with receiver(hanging) as slow, receiver(keeping_alive) as quick:
        urls = (slow.url, f"http://localhost:{quick.port}/")
        command = [sys.executable, "-W", "ignore", "-c", UNDER_GEVENT, *urls]
        output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert output.stdout.split() == ["True", "None", *["timeout"] * 4, "0"]
    assert output.stderr == ""
