"""expires_at: a job that was not begun by then is cancelled, and says so; one that has begun goes on."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import redis
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine, text

from app import jobs
from app.jobs.expire import expire
from scheduler.expirer import Expirer
from tests.api_calls import ApiCalls, error
from tests.factories import Scene


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


def test_an_end_before_the_beginning_is_refused(client: FlaskClient, api_key: str) -> None:
    api = ApiCalls(client, api_key)
    refused = api.submit(run_at="2030-01-01T00:00:01Z", expires_at="2030-01-01T00:00:01Z")
    assert error(refused, 400)["details"][0]["field"] == "expires_at"
    assert api.submit(run_at="2030-01-01T00:00:01Z", expires_at="2030-01-01T00:00:02Z").status_code == 201
