"""A submitter's trace goes on to the receiver: which headers are sound, and where they arrive."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests

from app.callbacks.request import header_lines
from app.demo_receiver import DemoReceiver
from app.traceparent import sound
from tests.delivery import make_claim
from tests.eventually import eventually
from tests.processes import Processes

TRACE = "0af7651916cd43dd8448eb211c80319c"
SOUND = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    ("given", "passed_on"),
    [
        (SOUND, SOUND),
        (f"  {SOUND} ", SOUND),
        (f"cc-{SOUND[3:]}-what-will-be", SOUND),
        (f"cc-{SOUND[3:]}", SOUND),
        (None, None),
        ("", None),
        (f"ff-{SOUND[3:]}", None),
        (f"{SOUND}-more", None),
        (f"cc-{SOUND[3:]}.more", None),
        (SOUND.upper(), None),
        (f"00-{'0' * 32}-b7ad6b7169203331-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (f"{SOUND}, {SOUND}", None),
        (f"00-{TRACE}-b7ad6b7169203331-01\r\nX: y", None),
        (f"00-{TRACE}-b7ad6b716920333-01", None),
    ],
)
def test_sound_headers_are_passed_on_and_broken_ones_are_none(given: str | None, passed_on: str | None) -> None:
    assert sound(given) == passed_on


def sent(**changes: object) -> list[str | bytes]:
    lines = header_lines(make_claim("http://h/", **changes), 0)
    return [line for line in lines if line[:12].lower() in ("traceparent:", b"traceparent:")]


def test_it_is_sent_once_and_a_header_of_the_jobs_own_goes_first() -> None:
    assert sent() == []
    assert sent(traceparent=SOUND) == [f"traceparent: {SOUND}"]
    assert sent(traceparent=SOUND, headers=(("TraceParent", "mine"),)) == [b"TraceParent: mine"]


@pytest.fixture
def web(processes: Processes) -> Iterator[str]:
    processes.worker()
    processes.scheduler()
    yield processes.web()


def test_the_receiver_gets_it_from_one_job_a_batch_a_retry_and_a_follow_up(
    web: str, receiver: DemoReceiver, api_key: str
) -> None:
    headers = {"Authorization": f"Bearer {api_key}", "traceparent": SOUND}
    job = {"type": "t", "payload": {}, "callback_url": f"{receiver.url}/hook"}
    flaky = {
        **job,
        "callback_url": f"{receiver.url}/hook-flaky?fails=1",
        "retry": {"backoff": "fixed", "base_seconds": 0.1},
        "on_success_url": f"{receiver.url}/hook?told",
    }
    assert requests.post(f"{web}/v1/jobs", json=job, headers=headers, timeout=10).status_code == 201
    assert requests.post(f"{web}/v1/jobs/batch", json=[job, flaky], headers=headers, timeout=10).status_code == 200
    broken = {**headers, "traceparent": "00-nothing"}
    assert requests.post(f"{web}/v1/jobs", json=job, headers=broken, timeout=10).status_code == 201
    eventually(lambda: receiver.record.total == 6, timeout=20)
    found = [arrival.headers.get("traceparent") for arrival in receiver.record.newest_first()]
    assert sorted(found, key=str) == [SOUND] * 5 + [None]
