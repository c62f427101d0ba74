"""The demo receiver: its answers by path, its page and its record."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
import requests

from app.demo_receiver import LONGEST_BODY_BYTES, DemoReceiver
from app.demo_record import KEPT_ARRIVALS, KEPT_BODY_BYTES, KEPT_JOBS, Arrival, Record


def post(receiver: DemoReceiver, path: str, job_id: str = "job-1") -> int:
    return requests.post(receiver.url + path, data=b"{}", headers={"X-Job-ID": job_id}, timeout=10).status_code


@pytest.mark.parametrize(
    ("path", "status"), [("/hook", 200), ("/hook-fail", 500), ("/hook-slow?seconds=0", 200), ("/x", 404)]
)
def test_a_path_has_its_answer(receiver: DemoReceiver, path: str, status: int) -> None:
    assert post(receiver, path) == status


def test_flaky_fails_the_first_calls_of_each_job(receiver: DemoReceiver) -> None:
    answers = [post(receiver, "/hook-flaky?fails=2", job) for job in ("a", "a", "b", "a", "b", "b")]
    assert answers == [500, 500, 500, 200, 500, 200]


@pytest.mark.parametrize(
    "path", ["/hook-flaky?fails=²", "/hook-flaky?fails=", "/hook-slow?seconds=nan", "/hook-slow?seconds=-1"]
)
def test_odd_numbers_in_the_address_are_answered(receiver: DemoReceiver, path: str) -> None:
    assert post(receiver, path) in (200, 500)


def test_slow_answers_do_not_hold_others_up(receiver: DemoReceiver) -> None:
    started = time.monotonic()
    with ThreadPoolExecutor(40) as pool:
        slow = list(pool.map(lambda _: post(receiver, "/hook-slow?seconds=0.5"), range(40)))
    assert slow == [200] * 40
    assert 0.5 <= time.monotonic() - started < 5


def test_requests_lists_what_arrived(receiver: DemoReceiver) -> None:
    requests.post(f"{receiver.url}/hook?a=1", data='{"n": 1}', headers={"X-Job-ID": "j"}, timeout=10)
    (arrival,) = requests.get(f"{receiver.url}/requests", timeout=10).json()
    assert (arrival["method"], arrival["path"], arrival["body"], arrival["answered"]) == (
        "POST",
        "/hook?a=1",
        '{"n": 1}',
        200,
    )
    assert arrival["headers"]["X-Job-ID"] == "j"
    requests.delete(f"{receiver.url}/requests", timeout=10)
    assert requests.get(f"{receiver.url}/requests", timeout=10).json() == []


def test_the_page_escapes_what_arrived(receiver: DemoReceiver) -> None:
    attack = "<script>alert(1)</script>"
    requests.post(
        f"{receiver.url}/hook?{attack}", data=attack, headers={"X-Job-ID": attack, "X-Job-Type": attack}, timeout=10
    )
    page = requests.get(receiver.url, timeout=10)
    assert page.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert "<script" not in page.text
    assert page.text.count("&lt;script&gt;") >= 3


def test_memory_is_bounded() -> None:
    record = Record()
    for _ in range(KEPT_ARRIVALS + 5):
        record.add(Arrival(datetime.now(UTC), "POST", "/hook", {}, b"x" * (KEPT_BODY_BYTES + 1)))
    for number in range(KEPT_JOBS + 5):
        record.count_call(f"job-{number}")
    assert len(record.newest_first()) == KEPT_ARRIVALS
    assert len(record.newest_first()[0].body) == KEPT_BODY_BYTES
    assert record.total == KEPT_ARRIVALS + 5
    assert record.count_call("job-0") == 1
    assert record.count_call(f"job-{KEPT_JOBS + 4}") == 2


@pytest.mark.parametrize(("length", "status"), [("-1", 411), ("²", 411), (str(LONGEST_BODY_BYTES + 1), 413)])
def test_a_body_that_cannot_be_read_is_refused(receiver: DemoReceiver, length: str, status: int) -> None:
    with socket.create_connection(("127.0.0.1", receiver.port), timeout=10) as connection:
        connection.sendall(f"POST /hook HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode("latin-1"))
        assert connection.makefile("rb").readline().split()[1] == str(status).encode()


def test_a_caller_that_hangs_up_ends_only_its_own_connection(receiver: DemoReceiver) -> None:
    with socket.create_connection(("127.0.0.1", receiver.port), timeout=10) as connection:
        connection.sendall(b"POST /hook HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
    assert post(receiver, "/hook") == 200
    assert receiver.record.total == 1
