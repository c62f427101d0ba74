"""flask callback test: what it sends, what it prints, and when it fails."""

from __future__ import annotations

import re

import pytest
from flask import Flask
from sqlalchemy import Connection, text
from standardwebhooks import Webhook

from tests.conftest import make_api_key
from tests.delivery import answering, keeping_alive, receiver, split
from tests.test_cli import Commands

SNEAKY = (
    b"HTTP/1.1 200 OK\r\nX-A: b\x1b]0;title\x07\r\nContent-Length: 11\r\nConnection: close\r\n\r\n\x1b[2Jhi\n\x9bthe"
)


@pytest.fixture
def flask(app: Flask) -> Commands:
    return Commands(app)


def test_the_answer_and_its_times_are_printed(flask: Commands) -> None:
    with receiver(keeping_alive) as made:
        result = flask("callback", "test", made.url)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "Succeeded: 200"
    assert [re.sub(r" +[0-9]+\.[0-9] ms$", "", line) for line in lines[1:4]] == [
        "  connected",
        "  first byte",
        "  over",
    ]
    assert lines[4:] == ["", "Content-Length: 2", "", "ok"]
    line, headers, body = split(made.requests[0])
    assert (line, body) == ("POST /hook HTTP/1.1", b"{}")
    assert "webhook-signature" not in dict(headers)


def test_method_headers_and_payload_are_sent_and_signed(flask: Commands, db_conn: Connection) -> None:
    make_api_key(db_conn, "acme")
    options = ("--method", "put", "--header", "X-A: b:c", "--header", "X-B:", "--payload", ' {"a":  1}\n')
    with receiver(keeping_alive) as made:
        result = flask("callback", "test", made.url, *options, "--client-name", "acme")
    assert result.exit_code == 0, result.output
    line, headers, body = split(made.requests[0])
    fields = {name.lower(): value for name, value in headers}
    assert (line, body, fields["x-a"], fields["x-b"]) == ("PUT /hook HTTP/1.1", b'{"a":  1}', "b:c", "")
    Webhook(db_conn.execute(text("SELECT signing_secret FROM clients")).scalar_one()).verify(body, fields)


def test_a_body_of_another_type(flask: Commands) -> None:
    with receiver(keeping_alive) as made:
        result = flask("callback", "test", made.url, "--body", "<é/>", "--content-type", "text/xml", "--timeout", "3")
    assert result.exit_code == 0, result.output
    _, headers, body = split(made.requests[0])
    assert (dict(headers)["Content-Type"], body) == ("text/xml", "<é/>".encode())


def test_a_failure_is_exit_code_1_and_says_why(flask: Commands) -> None:
    raw = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    with receiver(answering(raw)) as made:
        result = flask("callback", "test", made.url)
    assert result.exit_code == 1
    assert result.stdout.startswith("Failed (http_5xx): The receiver answered 503 Service Unavailable.\n")


def test_what_a_receiver_sends_cannot_steer_the_terminal(flask: Commands) -> None:
    with receiver(answering(SNEAKY)) as made:
        result = flask("callback", "test", made.url)
    assert result.stdout.endswith("\ufffd[2Jhi\n\ufffdthe\n")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", result.stdout)


@pytest.mark.parametrize(
    ("arguments", "words", "exit_code"),
    [
        (("http://10.0.0.1/",), "may not be called", 1),
        (("http://127.0.0.1:9/", "--client-name", "nobody"), "There is no client nobody", 1),
        (("http://127.0.0.1:9/", "--header", "Host:x"), "must leave out Host", 1),
        (("http://127.0.0.1:9/", "--header", "X"), "has no colon", 2),
        (("http://127.0.0.1:9/", "--header", "X:1", "--header", "X:2"), "more than once", 2),
        (("http://127.0.0.1:9/", "--payload", "{a}"), "The payload is not JSON", 2),
        (("http://127.0.0.1:9/", "--payload", "1", "--body", "1"), "not both", 1),
        (("http://127.0.0.1:9/", "--timeout", "31"), "timeout_seconds", 1),
        (("http://127.0.0.1:9/",), "Failed (connect): The connection could not be made", 1),
    ],
)
def test_what_cannot_be_sent_is_one_sentence(
    flask: Commands, arguments: tuple[str, ...], words: str, exit_code: int
) -> None:
    result = flask("callback", "test", *arguments)
    assert result.exit_code == exit_code
    assert words in " ".join(result.output.split())
