"""Answers that do not end, or end far too late or too large: bounded in time and in memory."""

from __future__ import annotations

import gc
import gzip
import socket
from collections.abc import Callable, Iterator

import psutil
import pytest

from tests.delivery import Delivery, Receiver, answering, receiver, running_deliverer

CLOSE = b"Connection: close\r\n\r\n"


@pytest.fixture(scope="module")
def delivery() -> Iterator[Delivery]:
    with running_deliverer() as delivery:
        yield delivery


def test_a_gzip_bomb_of_a_gibibyte_leaves_memory_alone(delivery: Delivery) -> None:
    # gzip members one after the other are one gzip stream.
    bomb = gzip.compress(bytes(1 << 20)) * 1024
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n" % len(bomb) + CLOSE
    with receiver(answering(head + bomb)) as made:
        gc.collect()
        before = psutil.Process().memory_info().rss
        for _ in range(5):
            answer = delivery.call(made.url)
            assert (answer.error_class, answer.response_truncated) == (None, True)
        gc.collect()
        assert psutil.Process().memory_info().rss - before < 10 << 20


def endless(start: bytes, again: bytes) -> Callable[[socket.socket, Receiver], None]:
    def speak(connection: socket.socket, made: Receiver) -> None:
        made.read_request(connection)
        connection.sendall(start)
        while not made.is_closed.is_set():
            connection.sendall(again)

    return speak


@pytest.mark.parametrize(
    ("start", "again", "status_code", "error_class"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536, 200, None, id="body"),
        pytest.param(b"HTTP/1.1 500 X\r\n\r\n", b"x" * 65536, 500, "http_5xx", id="body of a failure"),
        pytest.param(b"HTTP/1.1 200 OK\r\n", b"a:\r\n" * 1000, None, "protocol", id="headers"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: ", b"x" * 65536, None, "protocol", id="one header line"),
        pytest.param(
            b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 100, None, "protocol", id="interim answers"
        ),
        pytest.param(b"", b"H" * 65536, None, "protocol", id="no line at all"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"a: b\r\n" * 1000, 200, None, id="trailers"
        ),
    ],
)
def test_endless_answers_end(
    delivery: Delivery, start: bytes, again: bytes, status_code: int | None, error_class: str | None
) -> None:
    with receiver(endless(start, again)) as made:
        before = psutil.Process().memory_info().rss
        answer = delivery.call(made.url, timeout_seconds=30.0)
        assert (answer.status_code, answer.error_class) == (status_code, error_class)
        assert psutil.Process().memory_info().rss - before < 10 << 20


def trickling(start: bytes) -> Callable[[socket.socket, Receiver], None]:
    def speak(connection: socket.socket, made: Receiver) -> None:
        made.read_request(connection)
        connection.sendall(start)
        while not made.is_closed.wait(0.02):
            connection.sendall(b"x")

    return speak


@pytest.mark.parametrize(
    ("start", "status_code", "error_class"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\nfirst", 200, None, id="after complete headers of a success"),
        pytest.param(b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\n\r\nfirst", 503, "http_5xx", id="of a failure"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX-Slow: ", None, "timeout", id="in the headers"),
    ],
)
@pytest.mark.parametrize("timeout_seconds", [0.1, 0.3])
def test_the_deadline_ends_a_trickling_answer(
    delivery: Delivery, start: bytes, status_code: int | None, error_class: str | None, timeout_seconds: float
) -> None:
    with receiver(trickling(start)) as made:
        answer = delivery.call(made.url, timeout_seconds=timeout_seconds)
    assert (answer.status_code, answer.error_class) == (status_code, error_class)
    assert timeout_seconds * 1000 - 10 <= answer.timings["total"] < 3000
    assert status_code is None or (answer.response_body.startswith("first") and answer.response_truncated)
