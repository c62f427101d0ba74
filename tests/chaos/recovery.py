"""`python -m tests.chaos.recovery`: how soon all is well again after each kind of loss. Exits with 1 when one takes too long."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable

import requests

from tests.chaos.fleet import Fleet

BACKLOG = 100_000
FILL = """
    INSERT INTO jobs (id, client_id, queue_id, type, payload, payload_bytes, callback_url, callback_host, status, run_at, scheduled_for,
                      max_attempts, timeout_seconds)
    SELECT gen_random_uuid(), q.client_id, q.id, 'backlog', '1', 1, %(url)s, %(host)s, 'pending', punctual_now(), punctual_now(), 5, 60
    FROM queues q, generate_series(1, %(count)s) WHERE q.name = 'default'
"""


class Recovery:
    """A fleet, and the seconds each loss took."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.rows: list[tuple[str, float, float]] = []
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {fleet.api_key}"
        self.receiver = f"http://127.0.0.1:{fleet.receiver_port}"

    def note(self, what: str, seconds: float, most: float) -> None:
        self.rows.append((what, seconds, most))
        print(f"{what:<70} {seconds:6.2f} s  (at most {most:g})  {'ok' if seconds <= most else 'TOO LONG'}", flush=True)

    def timed(self, what: str, most: float, is_well: Callable[[], bool], since: float | None = None) -> None:
        began, deadline = since or time.monotonic(), time.monotonic() + 120
        while not is_well():
            assert time.monotonic() < deadline, what
            time.sleep(0.02)
        self.note(what, time.monotonic() - began, most)

    def scalar(self, query: str) -> int:
        with self.fleet.postgres() as conn:
            row = conn.execute(query.encode()).fetchone()
            return 0 if row is None else int(row[0] or 0)

    def submit(self, path: str, **fields: object) -> requests.Response:
        body = {"type": "recovery", "payload": 1, "callback_url": f"{self.receiver}{path}", **fields}
        return self.session.post(f"http://127.0.0.1:{self.fleet.web_ports[0]}/v1/jobs", json=body, timeout=10)

    def get(self, path: str) -> int:
        return requests.get(f"http://127.0.0.1:{self.fleet.web_ports[0]}{path}", timeout=5).status_code

    # The losses

    def a_worker_dies(self) -> None:
        assert self.submit("/ok?ms=20000", timeout_seconds=60, max_attempts=2).status_code == 201
        running = "SELECT count(*) FROM jobs WHERE status = 'running'"
        self.wait(lambda: self.scalar(running) == 1)
        for name in self.fleet.names("worker"):
            os.killpg(self.fleet.children[name].pid or 0, signal.SIGKILL)
        self.timed(
            "a worker's death is noticed",
            20,
            lambda: self.scalar("SELECT count(*) FROM executions WHERE status = 'lost'") == 1,
        )
        self.wait(
            lambda: self.scalar("SELECT count(*) FROM jobs WHERE status IN ('pending', 'scheduled', 'running')") == 0,
            60,
        )

    def the_leader_dies(self) -> None:
        with self.fleet.postgres() as conn:
            row = conn.execute("SELECT p.pid FROM leader l JOIN processes p ON p.id = l.holder").fetchone()
        assert row is not None
        leads = "SELECT count(*) FROM leader l JOIN processes p ON p.id = l.holder WHERE l.expires_at > punctual_now() AND p.pid <> {}"
        os.kill(row[0], signal.SIGKILL)
        self.timed("another scheduler leads", 6, lambda: self.scalar(leads.format(row[0])) == 1)

    def redis_is_emptied(self) -> None:
        with self.fleet.postgres() as conn:
            conn.execute(FILL, {"url": f"{self.receiver}/ok", "host": self.receiver, "count": BACKLOG})
            conn.execute("ANALYZE jobs")
        with self.fleet.redis() as client:
            client.flushall()
            time.sleep(2)
            self.wait(lambda: (client.get("{punctual}:epoch") or b"").startswith(b"ready:"), 60)
            client.flushall()
            began = time.monotonic()
            done = self.scalar("SELECT count(*) FROM jobs WHERE status = 'done'")
            self.timed(
                f"Redis emptied with {BACKLOG:,} jobs waiting: calls go out again", 5,
                lambda: self.scalar("SELECT count(*) FROM jobs WHERE status = 'done'") > done + 300, began,
            )  # fmt: skip
            self.timed(
                "  and it is filled again",
                30,
                lambda: (client.get("{punctual}:epoch") or b"").startswith(b"ready:"),
                began,
            )
        self.wait(
            lambda: self.scalar("SELECT count(*) FROM jobs WHERE status IN ('pending', 'scheduled', 'running')") == 0,
            120,
        )

    def postgresql_is_away(self) -> None:
        accepted = self.submit("/ok?ms=2000", timeout_seconds=60)
        self.wait(lambda: self.scalar("SELECT count(*) FROM jobs WHERE status = 'running'") == 1)
        assert self.fleet.stores.postgres is not None
        self.fleet.stores.postgres.child.stop()
        slowest, deadline = 0.0, time.monotonic() + 30
        assert self.get("/livez") == 200
        while time.monotonic() < deadline:
            began = time.monotonic()
            answer = self.submit("/ok")
            slowest = max(slowest, time.monotonic() - began)
            assert answer.status_code == 503, answer.text
            assert (self.get("/livez"), self.get("/readyz")) == (200, 503)
            time.sleep(0.5)
        self.note("PostgreSQL away for 30 s: the slowest 503", slowest, 2)
        self.fleet.stores.postgres.start()
        began = time.monotonic()
        self.timed("  a job is accepted again", 10, lambda: self.submit("/ok").status_code == 201, began)
        self.timed("  it is ready again", 10, lambda: self.get("/readyz") == 200, began)
        job_id = accepted.json()["id"]
        self.timed(
            "  what ended meanwhile is recorded", 10,
            lambda: self.scalar(f"SELECT count(*) FROM jobs WHERE id = '{job_id}' AND status = 'done'") == 1, began,
        )  # fmt: skip
        self.timed(
            "  new work is done",
            10,
            lambda: self.scalar("SELECT count(*) FROM jobs WHERE status = 'pending'") == 0,
            began,
        )
        sent = [line for line in self.fleet.requests_file.read_text().splitlines() if job_id in line]
        assert len(sent) == 1, "sent again"

    def an_idle_worker_is_stopped(self) -> None:
        child = self.fleet.children["worker-0"]
        began = time.monotonic()
        child.ask_to_stop()
        self.timed("an idle worker is gone after SIGTERM", 2, lambda: not child.is_running, began)

    def wait(self, is_well: Callable[[], bool], seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while not is_well():
            assert time.monotonic() < deadline
            time.sleep(0.05)


def main() -> int:
    fleet = Fleet.start()
    try:
        recovery = Recovery(fleet)
        assert recovery.submit("/ok").status_code == 201
        for loss in (
            recovery.an_idle_worker_is_stopped,
            recovery.the_leader_dies,
            recovery.a_worker_dies,
            recovery.postgresql_is_away,
            recovery.redis_is_emptied,
        ):
            loss()
    finally:
        fleet.stop()
    shutil.rmtree(fleet.folder, ignore_errors=True)
    return int(any(seconds > most for _, seconds, most in recovery.rows))


if __name__ == "__main__":
    sys.exit(main())
