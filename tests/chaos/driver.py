"""Gives the fleet work through its API, and notes what was accepted."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import requests

from tests.chaos.fleet import Fleet

THREADS = 4
QUICK = {"backoff": "fixed", "base_seconds": 0.3, "jitter": "half"}
LIMITED = "narrow"
CONCURRENCY = 3
# Which outcome each kind of job may have; a receiver that refuses for good makes a job dead.
KINDS: dict[str, tuple[dict[str, Any], str]] = {
    "now": ({"path": "/ok"}, "done"),
    "later": ({"path": "/ok", "delay": (0.5, 6.0)}, "done"),
    "retried": ({"path": "/flaky?fails=2", "max_attempts": 30}, "done"),
    "garbled": ({"path": "/garbage?fails=1", "max_attempts": 30}, "done"),
    "reset": ({"path": "/reset?fails=1", "max_attempts": 30}, "done"),
    "hung": ({"path": "/hang?fails=1", "max_attempts": 30, "timeout_seconds": 1.0}, "done"),
    "trickled": ({"path": "/trickle?fails=1", "max_attempts": 30, "timeout_seconds": 1.0}, "done"),
    "limited": ({"path": f"/ok?ms=30&queue={LIMITED}", "queue": LIMITED, "max_attempts": 30}, "done"),
    "refused": ({"path": "/fail", "max_attempts": 2}, "dead"),
    "named": ({"url": "http://n{number}.chaos.test:{port}/ok", "max_attempts": 30}, "done"),
    "nowhere": ({"url": "http://nowhere.invalid/", "max_attempts": 2}, "dead"),
    "cancelled": ({"path": "/ok", "delay": (60.0, 90.0)}, "cancelled"),
}
WEIGHTS = {"now": 40, "later": 20, "retried": 12, "limited": 10, "named": 6, "refused": 5, "cancelled": 3}


@dataclass
class Accepted:
    kind: str
    run_at: datetime


@dataclass
class Driver:
    """`accepted` by job id. A submission that got no 2xx is sent again under its key, as a careful program does."""

    fleet: Fleet
    seed: int
    jobs: int
    per_second: float
    accepted: dict[str, Accepted] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    errors: dict[str, int] = field(default_factory=dict)
    cron_entries: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0
        self._threads = [threading.Thread(target=self._work, args=(number,), daemon=True) for number in range(THREADS)]
        self._began = time.monotonic()

    def prepare(self) -> None:
        """The limited queue and the cron entries, before anything breaks."""
        with self.fleet.postgres() as conn:
            conn.execute(
                "INSERT INTO queues (client_id, name, concurrency) SELECT id, %s, %s FROM clients",
                (LIMITED, CONCURRENCY),
            )
        session = self._session()
        for number in range(5):
            template = {
                "type": "cron",
                "payload": {"n": number},
                "callback_url": self._url("/ok"),
                "retry": QUICK,
                "max_attempts": 30,
            }
            body = {
                "cron_expression": "* * * * *",
                "job_template": template,
                "name": f"every minute {number}",
                "overlap": "allow",
            }
            answer = session.post(f"http://127.0.0.1:{self.fleet.web_ports[0]}/v1/cron-jobs", json=body, timeout=10)
            assert answer.status_code == 201, answer.text
            self.cron_entries.append(answer.json()["id"])

    def start(self) -> None:
        self._began = time.monotonic()
        for thread in self._threads:
            thread.start()

    def wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        assert not any(thread.is_alive() for thread in self._threads), "some jobs were never accepted"

    @property
    def is_done(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def _session(self) -> requests.Session:
        session = requests.Session()
        session.headers["Authorization"] = f"Bearer {self.fleet.api_key}"
        return session

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.fleet.receiver_port}{path}"

    def _work(self, number: int) -> None:
        rand, session = random.Random(self.seed * 100 + number), self._session()
        while True:
            with self._lock:
                place = self._next
                self._next += 1
            if place >= self.jobs:
                return
            time.sleep(max(0.0, self._began + place / self.per_second - time.monotonic()))
            kind = rand.choices(list(KINDS), [WEIGHTS.get(kind, 2) for kind in KINDS])[0]
            self._submit(session, rand, kind, f"{self.seed}-{place}")

    def _submit(self, session: requests.Session, rand: random.Random, kind: str, key: str) -> None:
        spec = dict(KINDS[kind][0])
        url, path, delay = spec.pop("url", None), spec.pop("path", ""), spec.pop("delay", None)
        if url is not None:
            url = url.format(number=rand.randrange(1000), port=self.fleet.receiver_port)
        body = {"type": kind, "payload": {"key": key}, "callback_url": url or self._url(path), "retry": QUICK, **spec}
        body.setdefault("max_attempts", 30)
        if delay is not None:
            body["delay_seconds"] = round(rand.uniform(*delay), 3)
        answer = self._insist(session, "POST", "/v1/jobs", {200, 201}, json=body, headers={"Idempotency-Key": key})
        job = answer.json()
        with self._lock:
            self.accepted[job["id"]] = Accepted(kind, datetime.fromisoformat(job["run_at"]))
        if kind == "cancelled":
            self._insist(session, "DELETE", f"/v1/jobs/{job['id']}", {204, 409})
            with self._lock:
                self.cancelled.add(job["id"])

    def _insist(
        self, session: requests.Session, method: str, path: str, wanted: set[int], **arguments: Any
    ) -> requests.Response:
        for place in range(10_000):
            port = self.fleet.web_ports[place % 2]
            try:
                answer = session.request(method, f"http://127.0.0.1:{port}{path}", timeout=5, **arguments)
            except requests.RequestException as error:
                self._note(type(error).__name__)
            else:
                if answer.status_code in wanted:
                    return answer
                assert answer.status_code in (429, 502, 503), answer.text
                self._note(str(answer.status_code))
            time.sleep(0.1)
        raise AssertionError(f"{method} {path} was never accepted")

    def _note(self, error: str) -> None:
        with self._lock:
            self.errors[error] = self.errors.get(error, 0) + 1
