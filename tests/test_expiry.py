"""expires_at: a job that was not begun by then is cancelled, and says so; one that has begun goes on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine, text

from app import jobs
from app.jobs.expire import expire
from app.jobs.requests import Submitted
from scheduler.expirer import Expirer
from tests.api_calls import HOOK, ApiCalls, error
from tests.factories import Scene
from tests.shifted_time import shifted

JOB = {"type": "t", "payload": 1, "callback_url": HOOK}


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


@pytest.mark.parametrize(
    ("status", "columns", "is_cancelled"),
    [
        ("pending", {"seconds": -1}, True),
        ("scheduled", {"seconds": -1}, True),
        ("pending", {"seconds": 60}, False),
        ("pending", {}, False),
        # It has begun: its retries go on.
        ("scheduled", {"seconds": -1, "attempts": 1}, False),
        ("running", {"seconds": -1}, False),
        ("done", {"seconds": -1}, False),
        ("dead", {"seconds": -1}, False),
    ],
)
def test_who_is_cancelled(scene: Scene, status: str, columns: dict[str, Any], is_cancelled: bool) -> None:
    seconds = columns.pop("seconds", None)
    expires_at = None if seconds is None else scene.now() + timedelta(seconds=seconds)
    job_id = scene.job(status, expires_at=expires_at, **columns)
    assert expire(scene.conn, 10) == int(is_cancelled)
    row = scene.row(job_id)
    assert row["status"] == ("cancelled" if is_cancelled else status)
    if is_cancelled:
        assert (row["last_error_class"], row["finished_at"] is not None) == ("expired", True)


def test_what_has_expired_is_not_claimed_before_it_is_cancelled(scene: Scene) -> None:
    past = scene.now() - timedelta(seconds=1)
    late, retrying = scene.job(expires_at=past), scene.job("scheduled", expires_at=past, attempts=1)
    claimed = jobs.claim(scene.conn, scene.worker(), [scene.ticket(late), scene.ticket(retrying)])
    assert [claim.job_id for claim in claimed.claims] == [retrying]
    assert scene.row(late)["attempts"] == 0


def test_the_leader_looks_again_at_once_while_there_may_be_more(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.expirer.MOST", 2)
    for _ in range(3):
        scene.job(expires_at=scene.now() - timedelta(seconds=1))
    expirer = Expirer(scene.stores)
    assert [expirer.run_once() for _ in range(2)] == [0.0, 1.0]
    assert scene.count("jobs", "status = 'cancelled'") == 3


def test_a_program_sees_why(client: FlaskClient, api_key: str, db_conn: Connection) -> None:
    api = ApiCalls(client, api_key)
    job_id = api.submitted(expires_at="2030-01-01T00:00:00Z", delay_seconds=60)
    assert api.get(f"/v1/jobs/{job_id}").get_json()["expires_at"] == "2030-01-01T00:00:00Z"
    db_conn.execute(text("UPDATE jobs SET expires_at = punctual_now()"))
    expire(db_conn, 10)
    job = api.get(f"/v1/jobs/{job_id}").get_json()
    assert (job["status"], job["last_error"]) == ("cancelled", "The job was not begun by its expires_at.")


def test_a_key_may_be_used_again_after_its_window(client: FlaskClient, api_key: str, db_conn: Connection) -> None:
    api = ApiCalls(client, api_key)
    fields = {"idempotency_key": "k", "dedupe_window_seconds": 60}
    first = api.submit(**fields)
    assert (first.status_code, api.submit(**fields).status_code) == (201, 200)
    db_conn.execute(text("UPDATE jobs SET dedupe_until = punctual_now()"))
    again = api.submit(**fields)
    assert again.status_code == 201
    assert again.get_json()["id"] != first.get_json()["id"]
    assert api.submit(**fields).get_json()["id"] == again.get_json()["id"]


@pytest.mark.parametrize(
    "fields",
    [
        {"run_at": "2099-01-01T00:00:01Z", "expires_at": "2099-01-01T00:00:01Z"},
        {"expires_at": "2020-01-01T00:00:00Z"},
        {"run_at": "2019-01-01T00:00:00Z", "expires_at": "2020-01-01T00:00:00Z"},
        {"delay_seconds": 86_400 * 300, "expires_at": "soon"},
    ],
    ids=["run_at", "now", "now, though run_at is earlier", "delay"],
)
@pytest.mark.parametrize("is_keyed", [False, True])
def test_an_end_before_the_beginning_is_refused(
    client: FlaskClient, api_key: str, db_conn: Connection, fields: dict[str, Any], is_keyed: bool
) -> None:
    api = ApiCalls(client, api_key)
    if fields["expires_at"] == "soon":
        fields = {**fields, "expires_at": (datetime.now(UTC) + timedelta(days=200)).isoformat()}
    if is_keyed:
        fields = {**fields, "idempotency_key": "k"}
    assert error(api.submit(**fields), 400)["details"][0]["field"] == "expires_at"
    [item, other] = api.post("/v1/jobs/batch", [{**JOB, **fields}, JOB]).get_json()
    assert (item["result"], item["error"]["details"][0]["field"]) == ("invalid", "expires_at")
    assert other["result"] == "created"
    assert db_conn.execute(text("SELECT count(*) FROM jobs")).scalar_one() == 1


def test_an_end_after_the_beginning_is_taken(client: FlaskClient, api_key: str) -> None:
    api = ApiCalls(client, api_key)
    assert api.submit(run_at="2099-01-01T00:00:01Z", expires_at="2099-01-01T00:00:02Z").status_code == 201


def test_a_request_that_is_sent_again_after_its_jobs_end_still_finds_it(
    client: FlaskClient, api_key: str, db_conn: Connection
) -> None:
    api = ApiCalls(client, api_key)
    fields = {"idempotency_key": "k", "expires_at": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}
    made = api.post("/v1/jobs", {**JOB, **fields}).get_json()["id"]
    with shifted(db_conn, 7200):
        again = api.post("/v1/jobs", {**JOB, **fields})
        [item] = api.post("/v1/jobs/batch", [{**JOB, **fields}]).get_json()
    assert (again.status_code, again.get_json()["id"]) == (200, made)
    assert (item["result"], item["id"]) == ("replayed", made)


@pytest.mark.parametrize("size", [1, 20])
def test_of_many_who_use_keys_again_at_once_one_makes_each_job(scene: Scene, size: int) -> None:
    def submit(turn: int) -> list[Submitted]:
        keys = [f"k{(number * 7 + turn) % size}" for number in range(size)]
        asked = [
            scene.request(idempotency_key=key, request_fingerprint=b"1" * 32, dedupe_window_seconds=60) for key in keys
        ]
        return (
            jobs.submit_batch(scene.stores, asked) if turn % 2 else [jobs.submit(scene.stores, each) for each in asked]
        )

    submit(0)
    for rounds in range(2, 5):
        scene.conn.execute(text("UPDATE jobs SET dedupe_until = punctual_now() WHERE idempotency_key IS NOT NULL"))
        with ThreadPoolExecutor(6) as pool:
            found = [each for answers in pool.map(submit, range(6)) for each in answers]
        made = [each.job_id for each in found if each.outcome == "created"]
        assert len(made) == len(set(made)) == size
        assert {each.job_id for each in found} == set(made), "the others have the new jobs, not the old ones"
        assert scene.count("jobs") == size * rounds
