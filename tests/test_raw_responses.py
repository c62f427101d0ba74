"""Whatever bytes a receiver sends back: an honest outcome, bounded memory, and a deliverer that goes on."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from tests.delivery import Delivery, Receiver, answering, hanging, keeping_alive, receiver, running_deliverer

CLOSE = b"Connection: close\r\n\r\n"
SCRIPT = b"<script>alert(document.cookie)</script>"


@pytest.fixture(scope="module")
def delivery() -> Iterator[Delivery]:
    """One deliverer for all of it: each answer meets what the ones before left behind."""
    with running_deliverer() as delivery:
        yield delivery


RAW = [
    pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + CLOSE + b"ok", 200, None, "ok", id="plain 200"),
    pytest.param(
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + CLOSE + b"ok",
        200,
        None,
        "ok",
        id="interim 103 first",
    ),
    pytest.param(
        b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 500 X\r\nContent-Length: 0\r\n" + CLOSE,
        500,
        "http_5xx",
        "",
        id="interim 102, then 500",
    ),
    pytest.param(b"", None, "protocol", "", id="empty close"),
    pytest.param(b"hello\r\n", None, "protocol", "", id="not HTTP"),
    pytest.param(b"HTTP/1.1 204 No Content\r\n" + CLOSE, 204, None, "", id="204"),
    pytest.param(
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n" + CLOSE,
        302,
        "redirect",
        "",
        id="302 to a page",
    ),
    pytest.param(b"HTTP/1.1 304 Not Modified\r\n" + CLOSE, 304, "redirect", "", id="304"),
    pytest.param(
        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n" + CLOSE + b"\xff\xfe\x00abc",
        200,
        None,
        "\ufffd\ufffd\ufffdabc",
        id="invalid UTF-8 body with a NUL",
    ),
    pytest.param(
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n" + CLOSE + b"nope",
        200,
        None,
        "nope",
        id="bad gzip under a 200",
    ),
    pytest.param(
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n" + CLOSE + b"short",
        200,
        None,
        "short",
        id="body cut short under a 200",
    ),
    pytest.param(
        b"HTTP/1.1 500 X\r\nX-Err: <svg onload=alert(1)>\r\nContent-Length: 39\r\n" + CLOSE + SCRIPT,
        500,
        "http_5xx",
        SCRIPT.decode(),
        id="a script in the error",
    ),
    # The same kinds, further.
    pytest.param(b"HTTP/1.0 200 OK\r\n\r\nold", 200, None, "old", id="HTTP/1.0 without a length"),
    pytest.param(b"HTTP/1.1 200\r\n" + CLOSE, 200, None, "", id="no reason phrase"),
    pytest.param(b"HTTP/1.1 200 OK\nConnection: close\n\nbare", 200, None, "bare", id="bare line feeds"),
    pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n", None, "protocol", "", id="interim and nothing more"),
    pytest.param(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", None, "protocol", "", id="unasked 101"),
    pytest.param(b"HTTP/1.1 200 OK\r\nX-Cut: ye", None, "protocol", "", id="headers cut short"),
    pytest.param(b"HTTP/1.1 200 OK\r\nX-Nul: a\0b\r\n" + CLOSE, None, "protocol", "", id="NUL in a header"),
    pytest.param(b"HTTP/1.1 999 What\r\n" + CLOSE, 999, "protocol", "", id="999"),
    pytest.param(
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n" + CLOSE + b"cut", 404, "http_4xx", "cut", id="404, cut"
    ),
    pytest.param(b"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n" + CLOSE, 417, "http_4xx", "", id="417"),
    pytest.param(
        b"HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n" + CLOSE,
        401,
        "http_4xx",
        "",
        id="401",
    ),
    pytest.param(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + CLOSE + b"2\r\nok\r\nzzzz",
        200,
        None,
        "ok",
        id="bad chunk",
    ),
    pytest.param(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + CLOSE + b"2\r\nok\r\n0\r\nX-Late: 1\r\n\r\n",
        200,
        None,
        "ok",
        id="trailers",
    ),
    pytest.param(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n" + CLOSE + b"1\r\nx",
        None,
        "protocol",
        "",
        id="te gzip",
    ),
    pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: abc\r\n" + CLOSE + b"x", None, "protocol", "", id="bad length"),
    pytest.param(
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n" + CLOSE + b"x", None, "protocol", "", id="negative length"
    ),
    pytest.param(
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n" + CLOSE + b"xy",
        None,
        "protocol",
        "",
        id="two lengths",
    ),
    pytest.param(b"HTTP/2 200\r\n" + CLOSE + b"x", 200, None, "x", id="claims to be HTTP/2"),
    pytest.param(b"\x15\x03\x01\x00\x02\x02\x46", None, "protocol", "", id="a TLS alert"),
    pytest.param(b"\0" * 5000, None, "protocol", "", id="NULs"),
]


@pytest.mark.parametrize(("raw", "status_code", "error_class", "body"), RAW)
def test_raw_answers_have_honest_outcomes(
    delivery: Delivery, raw: bytes, status_code: int | None, error_class: str | None, body: str
) -> None:
    with receiver(answering(raw)) as made:
        answer = delivery.call(made.url)
    assert (answer.status_code, answer.error_class) == (status_code, error_class)
    assert answer.response_body == body
    assert (answer.error is None) == (error_class is None)
    assert len(made.requests) == 1
    assert "127.0.0.1" not in (answer.error or "").replace("http://127.0.0.1:9/", "")


def test_a_redirect_shows_its_location_and_is_not_followed(delivery: Delivery) -> None:
    with receiver(keeping_alive) as target:
        location = f"http://127.0.0.1:{target.port}/elsewhere"
        raw = f"HTTP/1.1 307 Temporary Redirect\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()
        with receiver(answering(raw)) as made:
            answer = delivery.call(made.url)
        assert answer.error_class == "redirect"
        assert location in (answer.error or "")
        assert target.accepted == 0


def test_headers_are_kept_as_text_in_order_and_within_bounds(delivery: Delivery) -> None:
    many = b"".join(b"X-%d: %s\r\n" % (number, b"v" * 600) for number in range(300))
    raw = b"HTTP/1.1 200 OK\r\nX-First: caf\xe9\x01\r\nx-first:again\r\nContent-Length: 0\r\n" + many + CLOSE
    with receiver(answering(raw)) as made:
        answer = delivery.call(made.url)
    assert answer.error_class is None
    assert answer.response_headers[:2] == (("X-First", "café\ufffd"), ("x-first", "again"))
    assert 10 < len(answer.response_headers) <= 100
    assert sum(len(name) + len(value) for name, value in answer.response_headers) <= 16 * 1024


@pytest.mark.parametrize(
    ("size", "stored", "is_truncated"),
    [(16 * 1024, 16 * 1024, False), (16 * 1024 + 1, 16 * 1024, True), (1 << 20, 16 * 1024, True)],
)
def test_the_first_16_kb_of_a_body_are_kept(delivery: Delivery, size: int, stored: int, is_truncated: bool) -> None:
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n" % size + CLOSE + b"x" * size
    with receiver(answering(raw)) as made:
        answer = delivery.call(made.url)
    assert (answer.error_class, len(answer.response_body)) == (None, stored)
    assert answer.response_truncated is is_truncated


def test_a_character_cut_in_two_by_the_limit_is_left_out(delivery: Delivery) -> None:
    body = b"x" + "é".encode() * 20_000
    with receiver(answering(b"HTTP/1.1 500 X\r\nContent-Length: %d\r\n" % len(body) + CLOSE + body)) as made:
        answer = delivery.call(made.url)
    assert answer.response_body == "x" + "é" * 8191
    assert answer.response_truncated


def test_a_body_cut_short_is_marked_truncated(delivery: Delivery) -> None:
    with receiver(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n" + CLOSE + b"short")) as made:
        assert delivery.call(made.url).response_truncated


def test_a_receiver_that_says_nothing_times_out(delivery: Delivery) -> None:
    with receiver(hanging) as made:
        answer = delivery.call(made.url, timeout_seconds=0.2)
    assert (answer.status_code, answer.error_class, answer.execution_status) == (None, "timeout", "timed_out")
    assert answer.error == "No answer within 0.2 s."


def test_a_reset_connection_is_a_protocol_failure(delivery: Delivery) -> None:
    def reset(connection: socket.socket, made: Receiver) -> None:
        made.read_request(connection)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with receiver(reset) as made:
        answer = delivery.call(made.url)
    assert (answer.status_code, answer.error_class) == (None, "protocol")
    assert "reset" in (answer.error or "")


def test_an_answer_before_the_body_was_read_counts(delivery: Delivery) -> None:
    def hasty(connection: socket.socket, made: Receiver) -> None:
        connection.recv(100)
        connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n" + CLOSE)
        made.is_closed.wait(5)

    with receiver(hasty) as made:
        answer = delivery.call(made.url, body=b"x" * (1 << 20))
    assert (answer.status_code, answer.error_class) == (413, "http_4xx")


def test_the_next_call_is_untouched_by_an_answer_that_was_cut(delivery: Delivery) -> None:
    def generous(connection: socket.socket, made: Receiver) -> None:
        while (request := made.read_request(connection)) is not None:
            size = 1 << 20 if b"/large" in request else 2
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"k" * size)

    with receiver(generous) as made:
        url = f"http://127.0.0.1:{made.port}"
        answers = [delivery.call(url + path) for path in ("/large", "/small", "/large", "/small", "/small")]
    assert [len(answer.response_body) for answer in answers] == [16384, 2, 16384, 2, 2]
    assert {answer.error_class for answer in answers} == {None}
