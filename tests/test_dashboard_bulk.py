"""Retrying, cancelling and deleting many jobs: what was asked about and nothing else, and only after a question."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest
import redis
from flask import Flask
from sqlalchemy import Connection, Engine, text

from app.jobs import bulk, bulk_operations
from app.jobs.search import JobSearch
from scheduler.bulk import Bulk
from tests.factories import Scene
from tests.pages import Person
from tests.test_dashboard_jobs import listed, newest_first

HOST = "https://api.example.com:443"
ROW = re.compile(r'<tr id="job-([0-9a-f-]{36})"')


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


@pytest.fixture
def ada(app: Flask) -> Person:
    return Person(app, "ada", "operator")


@pytest.fixture
def vic(app: Flask) -> Person:
    return Person(app, "vic", "viewer")


def asked(page: str) -> dict[str, list[str]]:
    """The hidden fields of the question's form."""
    form = page[page.index('class="dialog-buttons bulk-answer"') :]
    fields: dict[str, list[str]] = {}
    for name, value in re.findall(
        r'<input type="hidden" name="([^"]+)" value="([^"]*)">', form[: form.index("</form>")]
    ):
        fields.setdefault(name, []).append(value)
    return fields


def test_retries_the_ticked_ones_that_are_dead(scene: Scene, ada: Person) -> None:
    dead, other, done = scene.job(status="dead"), scene.job(status="dead"), scene.job(status="done")
    page = ada.get(f"/jobs/bulk?action=retry&job={dead}&job={done}")
    assert "Retry 1 job?" in page and "Of 2, 1 is dead" in page
    answer = ada.post("/jobs/bulk", **asked(page))
    assert answer.headers["Location"] == "/jobs/"
    assert ada.told() == ["1 job is on its way again."]
    assert [scene.status(job) for job in (dead, other, done)] == ["scheduled", "dead", "done"]
    row = scene.row(dead)
    assert (row["attempts"], row["queue_generation"], row["finished_at"]) == (0, 1, None)
    assert scene.ready() == [f"{dead}:1:0"]


def test_a_bulk_change_follows_the_filter_to_the_last_of_it(
    scene: Scene, ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "BATCH", 2)
    matching = [scene.job(status="dead", last_error_class="tls", type="a") for _ in range(5)]
    others = [
        scene.job(status="dead", last_error_class="dns", type="a"),
        scene.job(status="dead", last_error_class="tls", type="b"),
    ]
    page = ada.get("/jobs/bulk?action=retry&every=1&status=dead&error=tls&type=a")
    assert "Retry 5 jobs?" in page
    later = scene.job(status="dead", last_error_class="tls", type="a")
    ada.post("/jobs/bulk", **asked(page))
    assert ada.told() == ["5 jobs are on their way again."]
    assert {scene.status(job) for job in matching} == {"scheduled"}
    assert {scene.status(job) for job in [*others, later]} == {"dead"}, "others, and what came after the question, stay"
    assert len(scene.ready()) == 5
    notes = [note for note in scene.all("audit_log") if note["action"] == "job.retry"]
    noted = [job for note in notes for job in note["detail"].get("ids", [note["target_id"]])]
    assert sorted(noted) == sorted(map(str, matching))
    assert {note["actor"] for note in notes} == {"ada"}
    assert "error=tls" in notes[0]["detail"]["filter"]


def test_a_job_that_dies_again_is_not_retried_twice(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "BATCH", 1)
    jobs = [scene.job(status="dead") for _ in range(3)]
    retried: list[UUID] = []
    change = bulk.change

    def dies_at_once(*arguments: Any) -> list[UUID]:
        done = change(*arguments)
        retried.extend(done)
        for job in done:
            scene.change(job, status="dead", finished_at=scene.now())
        return done

    monkeypatch.setattr(bulk, "change", dies_at_once)
    done = bulk.change_matching(scene.stores, "retry", JobSearch(), bulk.By("user", "ada"), max(jobs), "")
    assert (done.changed, done.has_more, retried) == (3, False, newest_first(*jobs))


def test_a_bulk_change_that_is_too_large_says_how_to_go_on(scene: Scene) -> None:
    jobs = [scene.job(status="dead") for _ in range(5)]
    by = bulk.By("user", "ada")
    first = bulk.change_matching(scene.stores, "retry", JobSearch(), by, max(jobs), "", most=3)
    assert (first.changed, first.has_more) == (3, True)
    second = bulk.change_matching(scene.stores, "retry", JobSearch(), by, max(jobs), "", most=3)
    assert (second.changed, second.has_more) == (2, False)
    exactly = [scene.job(status="dead") for _ in range(3)]
    assert not bulk.change_matching(scene.stores, "retry", JobSearch(), by, max(exactly), "", most=3).has_more


def test_cancels_what_waits_and_nothing_else(scene: Scene, ada: Person) -> None:
    jobs = {
        status: scene.job(status=status) for status in ("pending", "scheduled", "running", "done", "dead", "cancelled")
    }
    ada.post("/jobs/bulk", **asked(ada.get("/jobs/bulk?action=cancel&every=1")))
    assert ada.told() == ["2 jobs are cancelled."]
    assert {status for status, job in jobs.items() if scene.status(job) != status} == {"pending", "scheduled"}
    assert scene.row(jobs["pending"])["finished_at"] is not None


def test_deletes_only_finished_jobs_and_their_attempts(scene: Scene, ada: Person) -> None:
    statuses = ("pending", "scheduled", "running", "done", "dead", "cancelled")
    jobs = [scene.job(status=status) for status in statuses]
    done = jobs[3]
    scene.conn.execute(
        text(
            "INSERT INTO executions (job_id, queue_generation, attempt, number, status, due_at, started_at, finished_at)"
            " VALUES (:id, 0, 1, 1, 'succeeded', now(), now(), now())"
        ),
        {"id": done},
    )
    page = ada.get("/jobs/bulk?action=delete&" + "&".join(f"job={job}" for job in jobs))
    assert "gone for good" in page
    ada.post("/jobs/bulk", **asked(page))
    assert ada.told() == ["3 jobs are deleted."]
    assert {row["status"] for row in scene.all("jobs")} == set(statuses[:3])
    assert scene.count("executions") == 0


def test_what_moved_on_since_the_question_is_left_alone_and_told(scene: Scene, ada: Person) -> None:
    job, other = scene.job(status="dead"), scene.job(status="dead")
    page = ada.get(f"/jobs/bulk?action=delete&job={job}&job={other}")
    scene.change(job, status="scheduled", finished_at=None, attempts=0)
    ada.post("/jobs/bulk", **asked(page))
    assert ada.told() == ["1 job is deleted. 1 had moved on meanwhile and were left alone."]
    assert scene.status(job) == "scheduled"


def test_a_relative_filter_stands_still_while_somebody_is_asked(scene: Scene, ada: Person) -> None:
    scene.job(status="dead")
    fields = asked(ada.get("/jobs/bulk?action=retry&every=1&since=1h"))
    assert "since" not in fields and fields["from"][0].endswith("Z")


def test_bulk_without_a_choice_changes_nothing(scene: Scene, ada: Person) -> None:
    job = scene.job(status="dead")
    assert ada.redirected("/jobs/bulk?action=delete") == "/jobs/"
    assert ada.told() == ["Tick the jobs first."]
    assert ada.post("/jobs/bulk", action="delete").status_code == 400
    assert ada.post("/jobs/bulk", action="delete", every="1").status_code == 400
    assert ada.post("/jobs/bulk", action="delete", every="1", through=str(job), status="gone").status_code == 400
    ada.get("/jobs/bulk?action=explode&every=1", status=400)
    ada.get("/jobs/bulk?action=delete&job=x", status=400)
    assert scene.status(job) == "dead"


def test_says_when_nothing_can_be_done(scene: Scene, ada: Person) -> None:
    scene.job(status="done")
    assert "Nothing here can be retried" in ada.get("/jobs/bulk?action=retry&every=1")
    assert "Nothing here can be cancelled" in ada.get("/jobs/bulk?action=cancel&every=1&status=done")


def test_only_actions_that_fit_the_filter_are_offered(scene: Scene, ada: Person) -> None:
    scene.job(status="done")
    page = ada.get("/jobs/?status=done")
    assert 'value="delete"' in page and 'value="retry"' not in page and 'value="cancel"' not in page


def test_a_viewer_sees_jobs_and_no_way_to_change_them(scene: Scene, vic: Person) -> None:
    job = scene.job(status="dead")
    page = vic.get("/jobs/")
    assert listed(page) == [job]
    assert "data-bulk" not in page and "data-tick" not in page and "Submit a job" not in page
    vic.get("/jobs/bulk?action=retry&every=1", status=403)
    assert vic.post("/jobs/bulk", action="retry", every="1", through=str(job)).status_code == 403
    assert scene.status(job) == "dead"


def test_a_change_needs_the_token_of_a_form(app: Flask, scene: Scene, ada: Person) -> None:
    job = scene.job(status="dead")
    csrf = app.config.get("WTF_CSRF_ENABLED", True)
    assert csrf, "the tests run with the protection on"
    assert ada.open("/jobs/bulk", method="POST", data={"action": "retry", "job": str(job)}).status_code == 400
    assert scene.status(job) == "dead"


def test_a_large_change_runs_in_the_background_with_its_progress_shown(
    scene: Scene, ada: Person, vic: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.dashboard.job_bulk.MOST_AT_ONCE", 2)
    monkeypatch.setattr(bulk_operations, "BATCH", 2)
    jobs = [scene.job(status="dead", type="a", updated_at=scene.now()) for _ in range(3)]
    page = ada.get("/jobs/bulk?action=retry&every=1&type=a")
    assert "runs in the background" in page
    late = scene.job(status="dead", type="a")
    address = ada.post("/jobs/bulk", **asked(page)).headers["Location"]
    assert "The leading scheduler begins" in ada.get(address)
    leader = Bulk(scene.stores)
    assert leader.run_once() == 0
    fragment = vic.fragment(address)
    assert 'data-state="running"' in fragment and "<strong>2</strong> of 3" in fragment and "Stop" not in fragment
    assert vic.post(f"{address}/stop").status_code == 403
    while leader.run_once() == 0:
        pass
    assert 'data-state="done"' in ada.fragment(address)
    assert [scene.status(job) for job in (*jobs, late)] == ["scheduled"] * 3 + ["dead"]
    assert ada.open("/jobs/bulk/99").status_code == 404
    assert ada.post(f"{address}/stop").headers["Location"] == address
