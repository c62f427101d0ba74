"""The main job, end to end: real web, worker and scheduler processes, real stores, and a receiver that notes what arrives."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
import redis
import requests
from sqlalchemy import Connection, text

from app.child import Child
from app.demo_receiver import DemoReceiver
from app.demo_record import Arrival
from tests.eventually import eventually
from tests.processes import Processes
from tests.shifted_time import shift


class Api:
    """The JSON API as a program sees it."""

    def __init__(self, url: str, key: str, session: requests.Session) -> None:
        self._url = url
        self._session = session
        self._session.headers["Authorization"] = f"Bearer {key}"

    def call(self, method: str, path: str, **arguments: Any) -> requests.Response:
        return self._session.request(method, f"{self._url}{path}", timeout=10, **arguments)

    def submit(self, url: str, **fields: Any) -> dict[str, Any]:
        body = {"type": "test", "payload": {"n": 1}, "callback_url": url, **fields}
        answer = self.call("POST", "/v1/jobs", json=body)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def job(self, job_id: str) -> dict[str, Any]:
        return dict(self.call("GET", f"/v1/jobs/{job_id}").json())

    def executions(self, job_id: str) -> list[dict[str, Any]]:
        return list(self.call("GET", f"/v1/jobs/{job_id}/executions").json())

    def wait_for(self, job_id: str, status: str, timeout: float = 15) -> dict[str, Any]:
        eventually(lambda: self.job(job_id)["status"] == status, timeout=timeout)
        return self.job(job_id)


@pytest.fixture
def api(processes: Processes, api_key: str) -> Iterator[Api]:
    """A running web process. Its connection is closed in the end: gunicorn waits for an idle one."""
    with requests.Session() as session:
        yield Api(processes.web(), api_key, session)


@pytest.fixture
def worker(processes: Processes) -> Child:
    return processes.worker()


@pytest.fixture
def scheduler(processes: Processes) -> Child:
    return processes.scheduler()


@pytest.fixture
def fleet(api: Api, worker: Child, scheduler: Child) -> Api:
    return api


def arrivals(receiver: DemoReceiver, job_id: str) -> list[Arrival]:
    """What arrived for one job, oldest first."""
    return [arrival for arrival in reversed(receiver.record.newest_first()) if arrival.job_id == job_id]


def test_a_job_due_now_is_delivered_once_with_its_bytes(fleet: Api, receiver: DemoReceiver) -> None:
    payload = '{"b": 1.50, "a": [1, "\\u0000", 12345678901234567890]}'
    body = f'{{"type": "invoice", "payload": {payload}, "callback_url": "{receiver.url}/hook"}}'
    answer = fleet.call("POST", "/v1/jobs", data=body, headers={"Content-Type": "application/json"})
    job_id = answer.json()["id"]
    job = fleet.wait_for(job_id, "done")
    (arrival,) = arrivals(receiver, job_id)
    assert arrival.text == payload
    assert arrival.header("Content-Type") == "application/json"
    assert arrival.header("Idempotency-Key") == arrival.header("webhook-id") == job_id
    assert (arrival.header("X-Job-Type"), arrival.header("X-Job-Attempt"), arrival.header("X-Job-Max-Attempts")) == (
        "invoice",
        "1",
        "5",
    )
    assert arrival.header("webhook-signature").startswith("v1,")
    (execution,) = fleet.executions(job_id)
    assert (execution["number"], execution["status"], execution["status_code"]) == (1, "succeeded", 200)
    assert execution["timings"]["total"] > 0
    assert (job["attempts"], job["last_status_code"]) == (1, 200)


def test_a_job_in_two_seconds_is_not_delivered_before_its_time(fleet: Api, receiver: DemoReceiver) -> None:
    job = fleet.submit(f"{receiver.url}/hook", delay_seconds=2)
    assert job["status"] == "scheduled"
    fleet.wait_for(job["id"], "done")
    (arrival,) = arrivals(receiver, job["id"])
    assert arrival.arrived_at >= datetime.fromisoformat(job["run_at"])


def test_a_job_that_fails_twice_succeeds_at_the_third_attempt(fleet: Api, receiver: DemoReceiver) -> None:
    job = fleet.submit(f"{receiver.url}/hook-flaky?fails=2")
    fleet.wait_for(job["id"], "done")
    assert [arrival.header("X-Job-Attempt") for arrival in arrivals(receiver, job["id"])] == ["1", "2", "3"]
    assert len({arrival.header("webhook-id") for arrival in arrivals(receiver, job["id"])}) == 1
    assert [e["status"] for e in fleet.executions(job["id"])] == ["failed", "failed", "succeeded"]


def test_a_dead_job_is_listed_and_retried_by_hand_with_its_whole_budget(fleet: Api, receiver: DemoReceiver) -> None:
    job = fleet.submit(f"{receiver.url}/hook-flaky?fails=2", max_attempts=1)
    fleet.wait_for(job["id"], "dead")
    assert [dead["id"] for dead in fleet.call("GET", "/v1/dead-letters").json()] == [job["id"]]
    retried = fleet.call("POST", f"/v1/jobs/{job['id']}/retry")
    assert (retried.status_code, retried.json()["status"], retried.json()["attempts"]) == (200, "scheduled", 0)
    fleet.wait_for(job["id"], "dead")
    fleet.call("POST", f"/v1/jobs/{job['id']}/retry")
    fleet.wait_for(job["id"], "done")
    executions = fleet.executions(job["id"])
    assert [(e["number"], e["attempt"], e["status"]) for e in executions] == [
        (1, 1, "failed"),
        (2, 1, "failed"),
        (3, 1, "succeeded"),
    ]


def test_a_cancelled_job_never_arrives(fleet: Api, receiver: DemoReceiver) -> None:
    cancelled = fleet.submit(f"{receiver.url}/hook", delay_seconds=1)
    later = fleet.submit(f"{receiver.url}/hook", delay_seconds=1.5)
    assert fleet.call("DELETE", f"/v1/jobs/{cancelled['id']}").status_code == 204
    fleet.wait_for(later["id"], "done")
    assert arrivals(receiver, cancelled["id"]) == []
    assert fleet.job(cancelled["id"])["status"] == "cancelled"
    assert fleet.call("DELETE", f"/v1/jobs/{cancelled['id']}").status_code == 409


@pytest.mark.usefixtures("minute_begins")
def test_a_cron_entry_fires_once_a_minute_as_time_passes(
    fleet: Api, receiver: DemoReceiver, db_conn: Connection
) -> None:
    made = fleet.call(
        "POST",
        "/v1/cron-jobs",
        json={
            "cron_expression": "* * * * *",
            "job_template": {"type": "tick", "payload": {}, "callback_url": f"{receiver.url}/hook"},
        },
    )
    assert made.status_code == 201, made.text
    try:
        for minutes in (1, 2, 3):
            shift(db_conn, minutes * 60)
            _wait_for_done(db_conn, minutes)
    finally:
        shift(db_conn, 0)
    occurrences = db_conn.execute(text("SELECT status, job_id FROM cron_occurrences")).all()
    assert [row.status for row in occurrences] == ["fired"] * 3
    assert len({row.job_id for row in occurrences}) == 3


def test_a_worker_killed_in_mid_call_loses_its_attempt_and_not_the_job(
    api: Api, scheduler: Child, worker: Child, processes: Processes, receiver: DemoReceiver
) -> None:
    job = api.submit(f"{receiver.url}/hook-slow?seconds=1.5")
    eventually(lambda: api.job(job["id"])["status"] == "running" and arrivals(receiver, job["id"]))
    worker.kill()
    processes.worker()
    api.wait_for(job["id"], "done", timeout=40)
    assert [e["status"] for e in api.executions(job["id"])] == ["lost", "succeeded"]
    assert len(arrivals(receiver, job["id"])) == 2


def test_another_scheduler_takes_over_when_the_leader_is_killed(
    api: Api, worker: Child, scheduler: Child, processes: Processes, receiver: DemoReceiver, db_conn: Connection
) -> None:
    eventually(lambda: _count(db_conn, "SELECT count(*) FROM leader WHERE holder IS NOT NULL"))
    processes.scheduler()
    eventually(lambda: _count(db_conn, "SELECT count(*) FROM processes WHERE kind = 'scheduler'") == 2)
    scheduler.kill()
    job = api.submit(f"{receiver.url}/hook", delay_seconds=0.2)
    api.wait_for(job["id"], "done", timeout=15)


def test_a_flush_of_redis_with_jobs_waiting_loses_none(
    fleet: Api, receiver: DemoReceiver, db_conn: Connection, redis_client: redis.Redis
) -> None:
    ids = [fleet.submit(f"{receiver.url}/hook", delay_seconds=1 + n / 100)["id"] for n in range(200)]
    redis_client.flushall()
    _wait_for_done(db_conn, 200)
    assert {arrival.job_id for arrival in receiver.record.newest_first()} == set(ids)


def test_sigterm_lets_a_call_end_and_hands_back_what_was_not_sent(
    api: Api, scheduler: Child, processes: Processes, receiver: DemoReceiver, db_conn: Connection
) -> None:
    worker = processes.worker("--concurrency", "200")
    ids = [api.submit(f"{receiver.url}/hook-slow?seconds=1")["id"] for _ in range(100)]
    eventually(lambda: receiver.record.total >= 64)
    worker.ask_to_stop()
    eventually(lambda: not worker.is_running)
    assert worker.exit_code == 0
    assert _count(db_conn, "SELECT count(*) FROM jobs WHERE status = 'running'") == 0
    processes.worker()
    _wait_for_done(db_conn, 100)
    assert sorted(arrival.job_id for arrival in receiver.record.newest_first()) == sorted(ids)
    assert _count(db_conn, "SELECT count(*) FROM executions") == 100


def test_a_stopped_worker_process_in_a_pool_is_started_again(
    api: Api, scheduler: Child, processes: Processes, receiver: DemoReceiver, db_conn: Connection
) -> None:
    processes.worker("--processes", "2")
    workers = "SELECT pid FROM processes WHERE kind = 'worker' ORDER BY started_at"
    eventually(lambda: len(db_conn.execute(text(workers)).all()) == 2)
    os.kill(db_conn.execute(text(workers)).all()[0].pid, signal.SIGKILL)
    eventually(lambda: len(db_conn.execute(text(workers)).all()) == 3)
    job = api.submit(f"{receiver.url}/hook")
    api.wait_for(job["id"], "done")


def _wait_for_done(conn: Connection, wanted: int, timeout: float = 30) -> None:
    eventually(lambda: _count(conn, "SELECT count(*) FROM jobs WHERE status = 'done'") == wanted, timeout=timeout)


def _count(conn: Connection, question: str) -> int:
    return int(conn.execute(text(question)).scalar_one())
