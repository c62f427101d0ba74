"""on_success_url and on_failure_url: a job of its own tells how a job ended, made by the statement that ends it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis
from sqlalchemy import Connection, Engine, RowMapping, text

from app import jobs
from app.demo_receiver import DemoReceiver
from app.ids import uuid7
from app.jobs.rescue import bury_exhausted
from app.signing import new_secret
from tests.eventually import eventually
from tests.factories import Scene, to_record
from tests.processes import Processes

SUCCESS, FAILURE = "https://ok.example/told", "https://bad.example/told"
BOTH = {
    "on_success_url": SUCCESS,
    "on_success_host": "https://ok.example:443",
    "on_failure_url": FAILURE,
    "on_failure_host": "https://bad.example:443",
}


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


def told_of(scene: Scene, job_id: object) -> list[RowMapping]:
    query = text("SELECT * FROM jobs WHERE follows_job_id = :id ORDER BY id")
    return list(scene.conn.execute(query, {"id": job_id}).mappings())


@pytest.mark.parametrize(
    ("columns", "ends_as", "url"),
    [
        (BOTH, "done", SUCCESS),
        (BOTH, "dead", FAILURE),
        (BOTH, "scheduled", None),
        ({**BOTH, "on_success_url": None}, "done", None),
        ({**BOTH, "on_failure_url": None}, "dead", None),
        ({}, "done", None),
    ],
)
def test_the_address_for_the_end_is_told(scene: Scene, columns: dict[str, Any], ends_as: str, url: str | None) -> None:
    claimed, worker = scene.running(type="invoice", attempts=2, **columns)
    item = to_record(claimed, worker, ends_as, response_body="é" * 2000)
    [recorded] = jobs.record(scene.conn, [item])
    made = told_of(scene, claimed.job_id)
    if url is None:
        assert (made, recorded.follow_up) == ([], None)
        return
    [told] = made
    assert (told["status"], told["callback_url"], told["type"]) == ("pending", url, f"punctual.job.{ends_as}")
    assert told["callback_host"] == BOTH[f"on_{'success' if ends_as == 'done' else 'failure'}_host"]
    assert (told["client_id"], told["run_at"], told["id"]) == (scene.client_id, recorded.now, recorded.follow_up)
    assert told["payload_bytes"] == len(told["payload"].encode())
    said = json.loads(told["payload"])
    assert said.pop("finished_at")
    is_done = ends_as == "done"
    assert said == {
        "job_id": str(claimed.job_id),
        "type": "invoice",
        "status": ends_as,
        "attempts": 3,
        "last_status_code": 200 if is_done else 500,
        "last_error": None if is_done else "The receiver answered 500.",
        "excerpt": "é" * 1024,
    }
    assert [job.ticket.job_id for job in recorded.due] == [str(told["id"])]


def test_recording_twice_tells_once(scene: Scene) -> None:
    claimed, worker = scene.running(**BOTH)
    for _ in range(2):
        jobs.record(scene.conn, [to_record(claimed, worker, "done")])
    assert len(told_of(scene, claimed.job_id)) == 1


def test_who_cancelled_is_not_told(scene: Scene) -> None:
    claimed, worker = scene.running(**BOTH)
    jobs.request_cancel(scene.conn, claimed.job_id)
    jobs.record(scene.conn, [to_record(claimed, worker, "scheduled")])
    assert scene.status(claimed.job_id) == "cancelled"
    assert told_of(scene, claimed.job_id) == []


def test_a_batch_tells_of_those_that_ask_for_it(scene: Scene) -> None:
    worker = scene.worker()
    plain, followed, failing = scene.job(), scene.job(**BOTH), scene.job(**BOTH)
    claims = scene.claim(plain, followed, failing, worker=worker)
    ends = ("done", "done", "dead")
    recorded = jobs.record(scene.conn, [to_record(claim, worker, end) for claim, end in zip(claims, ends, strict=True)])
    assert {item.ending.claim.job_id: item.follow_up is not None for item in recorded} == {
        plain: False,
        followed: True,
        failing: True,
    }


def test_a_buried_job_is_told_of_too(scene: Scene) -> None:
    exhausted, other = scene.job("scheduled", attempts=5, **BOTH), scene.job("scheduled", **BOTH)
    bury_exhausted(scene.conn, [exhausted, other])
    [told] = told_of(scene, exhausted)
    assert (told["callback_url"], json.loads(told["payload"])["attempts"]) == (FAILURE, 5)
    assert told_of(scene, other) == []


def test_a_job_that_cannot_be_claimed_is_told_of_too(scene: Scene) -> None:
    job_id = scene.job(id=uuid7(), **BOTH)
    scene.conn.execute(text(f"ALTER TABLE jobs ADD CONSTRAINT bad_row CHECK (id <> '{job_id}' OR attempts = 0)"))
    try:
        jobs.claim(scene.conn, scene.worker(), [scene.ticket(job_id)])
    finally:
        scene.conn.execute(text("ALTER TABLE jobs DROP CONSTRAINT bad_row"))
    [told] = told_of(scene, job_id)
    assert "could not be claimed" in json.loads(told["payload"])["last_error"]


def test_what_is_told_is_delivered_like_any_job(scene: Scene, processes: Processes, receiver: DemoReceiver) -> None:
    scene.conn.execute(text("UPDATE clients SET signing_secret = :secret"), {"secret": new_secret()})
    processes.worker()
    processes.scheduler()
    told_at = {name: f"{receiver.url}/hook?{name}" for name in ("on_success_url", "on_failure_url")}
    hosts = {name.replace("url", "host"): receiver.url for name in told_at}
    asked = {
        path: jobs.submit(
            scene.stores,
            scene.request(
                callback_url=f"{receiver.url}{path}", callback_host=receiver.url, max_attempts=1, **told_at, **hosts
            ),
        ).job_id
        for path in ("/hook", "/hook-fail")
    }
    eventually(lambda: scene.count("jobs", "follows_job_id IS NOT NULL AND status = 'done'") == 2, timeout=20)
    said = {arrival.path: json.loads(arrival.text) for arrival in receiver.record.newest_first() if "?" in arrival.path}
    assert said["/hook?on_success_url"]["job_id"] == str(asked["/hook"])
    assert said["/hook?on_failure_url"]["job_id"] == str(asked["/hook-fail"])
    assert said["/hook?on_failure_url"]["last_status_code"] == 500
