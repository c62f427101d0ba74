"""A job's page changes it: edited before it starts or after it died, run now, and whom it tells and what told of it."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
import redis
from flask import Flask
from sqlalchemy import Connection, Engine
from werkzeug.test import TestResponse

from app import jobs
from tests.factories import Scene, as_json, to_record
from tests.forms import refusals, values
from tests.pages import HOSTILE, Person, assert_text_only
from tests.test_dashboard_job import code_blocks

HOOK = {"callback_url": "http://127.0.0.1:9/hook", "callback_host": "http://127.0.0.1:9"}


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


@pytest.fixture
def ada(app: Flask) -> Person:
    return Person(app, "ada", "operator")


def edit(ada: Person, job: UUID, **fields: str) -> TestResponse:
    """Sends the form of the job back with `fields` changed."""
    return ada.post(f"/jobs/{job}/edit", **{**values(ada.get(f"/jobs/{job}/edit")), **fields})


def dead_after_an_attempt(scene: Scene, **columns: Any) -> UUID:
    job, worker = scene.job(**HOOK, **columns), scene.worker()
    [claimed] = scene.claim(job, worker=worker)
    jobs.record(scene.conn, [to_record(claimed, worker, "dead")])
    return job


def buttons(page: str) -> list[str]:
    state = page[page.index('class="job-state') : page.index('class="job-columns"')]
    return [word for word in ("Retry now", "Edit and retry", "Run now", "Edit<", "Duplicate") if word in state]


@pytest.mark.parametrize(
    ("status", "columns", "offered"),
    [
        ("pending", {}, ["Edit<", "Duplicate"]),
        ("scheduled", {}, ["Run now", "Edit<", "Duplicate"]),
        ("scheduled", {"attempts": 1}, ["Run now", "Duplicate"]),
        ("running", {}, ["Duplicate"]),
        ("done", {}, ["Duplicate"]),
        ("dead", {}, ["Retry now", "Edit and retry", "Duplicate"]),
        ("cancelled", {}, ["Duplicate"]),
    ],
)
def test_offers_what_can_be_done(
    app: Flask, scene: Scene, ada: Person, status: str, columns: dict[str, Any], offered: list[str]
) -> None:
    job = scene.job(status, **columns)
    assert buttons(ada.get(f"/jobs/{job}")) == offered
    assert buttons(Person(app, "vic", "viewer").get(f"/jobs/{job}")) == []


def test_a_waiting_job_is_changed_and_on_record(scene: Scene, ada: Person) -> None:
    job = scene.job("scheduled", run_at=scene.now() + timedelta(hours=1), **HOOK)
    before = scene.row(job)
    answer = edit(
        ada, job, callback_url="http://127.0.0.2:7/new", payload='{"n": 2}', headers="X-A: 1", max_attempts="9"
    )
    assert answer.headers["Location"] == f"/jobs/{job}"
    after = scene.row(job)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"callback_url", "callback_host", "payload", "headers", "max_attempts", "updated_at"}
    assert (after["callback_host"], after["payload"]) == ("http://127.0.0.2:7", '{"n": 2}')
    note = scene.all("audit_log")[-1]
    assert (note["action"], note["actor"], note["client_id"]) == ("job.edit", "ada", scene.client_id)
    assert note["detail"] == {"fields": ["callback_url", "headers", "max_attempts", "payload"]}
    assert ada.told() == ["The job is changed."]


@pytest.mark.parametrize(
    ("fields", "moved"),
    [
        ({"when": "delay", "delay": "2", "unit": "hours"}, timedelta(hours=2)),
        ({"when": "at", "run_at": "2030-01-15T10:00", "zone": "Europe/Berlin"}, datetime(2030, 1, 15, 9, tzinfo=UTC)),
        ({"when": "keep", "run_at": "2030-01-15T10:00"}, None),
    ],
)
def test_the_time_of_a_waiting_job_is_moved(
    scene: Scene, ada: Person, fields: dict[str, str], moved: datetime | timedelta | None
) -> None:
    job = scene.job("scheduled", run_at=scene.now() + timedelta(hours=1), **HOOK)
    before = scene.row(job)["run_at"]
    asked_at = scene.now()
    assert edit(ada, job, **fields).status_code == 302
    after = scene.row(job)["run_at"]
    if isinstance(moved, timedelta):
        assert asked_at + moved <= after <= scene.now() + moved
    else:
        assert after == (moved or before)


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"when": "delay", "delay": "366", "unit": "days"}, "when", "a year at most"),
        ({"when": "delay", "delay": "soon"}, "when", "Give a number"),
        ({"when": "at", "run_at": ""}, "when", "Give a day"),
        ({"callback_url": "http://10.0.0.1/"}, "callback_url", "may not be called"),
        ({"payload": "{"}, "payload", "not JSON"),
    ],
)
def test_what_cannot_be_is_refused_at_its_field(
    scene: Scene, ada: Person, fields: dict[str, str], field: str, words: str
) -> None:
    job = scene.job("scheduled", run_at=scene.now() + timedelta(hours=1), **HOOK)
    before = as_json(scene.row(job))
    told = refusals(edit(ada, job, **fields))
    assert set(told) == {field} and words in told[field], told
    assert as_json(scene.row(job)) == before


def test_a_dead_job_is_edited_and_retried_at_once_and_its_attempts_keep_what_they_sent(
    scene: Scene, ada: Person
) -> None:
    job = dead_after_an_attempt(scene, headers='[["X-Old","1"],["X-Token","s3"]]')
    assert "may be sent" not in ada.get(f"/jobs/{job}")
    page = ada.get(f"/jobs/{job}/edit")
    assert "It died:" in page and 'name="when"' not in page and "Save and retry" in page
    answer = edit(ada, job, retry="1", headers="X-New: 2", payload='{"n": 2}', method="PUT")
    assert answer.headers["Location"] == f"/jobs/{job}"
    row = scene.row(job)
    assert (row["status"], row["attempts"], row["method"], row["queue_generation"]) == ("scheduled", 0, "PUT", 1)
    assert [note["action"] for note in scene.all("audit_log")][-2:] == ["job.edit", "job.retry"]
    blocks = code_blocks(ada.get(f"/jobs/{job}?attempt=1"))
    (head,) = [block for block in blocks if block.startswith("POST ")]
    assert "X-Old: 1" in head and "X-New" not in head and "s3" not in head
    assert '{"n": 1}' in blocks, "the body that this attempt sent"


def test_a_dead_job_can_be_edited_without_a_retry(scene: Scene, ada: Person) -> None:
    job = dead_after_an_attempt(scene)
    assert edit(ada, job, timeout_seconds="30 s").status_code == 302
    assert (scene.status(job), scene.row(job)["timeout_seconds"]) == ("dead", 30.0)
    five = scene.job("dead", **HOOK)
    assert "has had 5 attempts" in refusals(edit(ada, five, max_attempts="4"))["max_attempts"]


@pytest.mark.parametrize(("status", "columns"), [("running", {}), ("done", {}), ("scheduled", {"attempts": 1})])
def test_a_job_that_has_begun_meanwhile_stays(scene: Scene, ada: Person, status: str, columns: dict[str, Any]) -> None:
    job = scene.job("scheduled", **HOOK)
    fields = values(ada.get(f"/jobs/{job}/edit"))
    begun = scene.job(status, **HOOK, **columns)
    before = as_json(scene.row(begun))
    answer = ada.post(f"/jobs/{begun}/edit", **{**fields, "payload": "{}"})
    assert answer.headers["Location"] == f"/jobs/{begun}"
    assert as_json(scene.row(begun)) == before
    assert "can be changed" in ada.told()[-1]
    page = ada.get(f"/jobs/{begun}/edit")
    assert "can no longer be changed" in page and re.search(r'<button class="btn btn-primary" disabled>', page)


def test_run_now_makes_a_scheduled_job_due(scene: Scene, ada: Person) -> None:
    job = scene.job("scheduled", run_at=scene.now() + timedelta(hours=1))
    assert ada.post(f"/jobs/{job}/run-now").headers["Location"] == f"/jobs/{job}"
    assert scene.row(job)["run_at"] <= scene.now() and scene.on_the_way() == [f"{job}:0:0"]
    assert scene.all("audit_log")[-1]["action"] == "job.run_now"
    done = scene.job("done")
    ada.post(f"/jobs/{done}/run-now")
    assert ada.told()[-1] == "The job is done: only a scheduled job can be run now."


def test_roles_and_strangers(app: Flask, scene: Scene, ada: Person) -> None:
    job, vic = scene.job("scheduled", **HOOK), Person(app, "vic", "viewer")
    vic.get(f"/jobs/{job}/edit", status=403)
    assert vic.post(f"/jobs/{job}/edit", payload="{}").status_code == 403
    assert vic.post(f"/jobs/{job}/run-now").status_code == 403
    ada.get(f"/jobs/{uuid4()}/edit", status=404)
    for path in ("edit", "run-now"):
        assert ada.post(f"/jobs/{uuid4()}/{path}").status_code == 404


def test_a_job_shows_whom_it_tells_and_what_told_of_it(scene: Scene, ada: Person) -> None:
    job = scene.job(
        "dead",
        on_failure_url="https://ops.example.com/dead",
        last_error="The receiver answered 410 Gone: it wants no further attempt.",
    )
    teller = scene.job("done", follows_job_id=job, callback_url="https://ops.example.com/dead")
    page = html.unescape(ada.get(f"/jobs/{job}"))
    assert "Tells when it is dead" in page and f'href="/jobs/{teller}"' in page
    assert "it wants no further attempt" in page
    assert f'href="/jobs/{teller}"' in ada.fragment(f"/jobs/{job}")
    told = ada.get(f"/jobs/{teller}")
    assert "Tells how another ended" in told and f'href="/jobs/{job}"' in told


@pytest.mark.parametrize("hostile", HOSTILE)
def test_what_comes_from_outside_is_text(scene: Scene, ada: Person, hostile: str) -> None:
    job = scene.job("dead", last_error=hostile, type=hostile, **HOOK)
    scene.job("dead", follows_job_id=job, callback_url=hostile)
    assert_text_only(ada.get(f"/jobs/{job}"))
    assert_text_only(ada.get(f"/jobs/{job}/edit"))
