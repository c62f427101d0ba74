"""A job's page: its state, its attempts with times and answers, and what may be done to it."""

from __future__ import annotations

import html
import json
import re
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
import redis
from flask import Flask
from sqlalchemy import Connection, Engine, text

from tests.factories import Scene, make_job
from tests.pages import HOSTILE, Person, assert_text_only

EXECUTION = text("""
    INSERT INTO executions (job_id, queue_generation, attempt, number, status, due_at, started_at, finished_at, status_code,
                            error_class, error, timings, response_headers, response_body, response_truncated)
    VALUES (:job_id, :generation, :attempt, :number, :status, :due_at, :due_at + make_interval(secs => 0.25),
            :due_at + make_interval(secs => 1.25), :status_code, :error_class, :error, CAST(:timings AS jsonb),
            CAST(:headers AS jsonb), :body, :truncated)
""")


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


@pytest.fixture
def ada(app: Flask) -> Person:
    return Person(app, "ada", "operator")


def attempted(scene: Scene, job: UUID, number: int = 1, **columns: Any) -> None:
    values = {
        "job_id": job,
        "generation": 0,
        "attempt": number,
        "number": number,
        "status": "failed",
        "due_at": scene.now() - timedelta(minutes=10 - number),
        "status_code": 503,
        "error_class": "http_5xx",
        "error": "The receiver answered 503 Service Unavailable.",
        "timings": {"dns": 1.5, "connect": 4.0, "first_byte": 990.0, "total": 1000.0},
        "headers": [["Retry-After", "7"]],
        "body": f"answer of {number}",
        "truncated": False,
        **columns,
    }
    values["timings"], values["headers"] = json.dumps(values["timings"]), json.dumps(values["headers"])
    scene.conn.execute(EXECUTION, values)


def code_blocks(page: str) -> list[str]:
    return [html.unescape(found) for found in re.findall(r'<code dir="auto">(.*?)</code>', page, re.DOTALL)]


def test_shows_what_the_job_is(scene: Scene, ada: Person) -> None:
    job = scene.job(type="email.send", idempotency_key="order-7", callback_url="https://api.example.com/in?a=1&b=2")
    page = ada.get(f"/jobs/{job}")
    for shown in ("email.send", str(job), "order-7", "https://api.example.com/in?a=1&amp;b=2", "tests"):
        assert shown in page


def test_an_unknown_job_is_nothing(app: Flask, ada: Person) -> None:
    ada.get(f"/jobs/{uuid4()}", status=404)
    ada.get("/jobs/nonsense", status=404)
    ada.get(f"/jobs/{uuid4()}/payload", status=404)
    for action in ("retry", "cancel", "delete", "stop"):
        assert ada.post(f"/jobs/{uuid4()}/{action}").status_code == 404


def test_the_timeline_tells_planned_and_real_start_newest_first(scene: Scene, ada: Person) -> None:
    job = scene.job(status="scheduled", attempts=2, run_at=scene.now() + timedelta(seconds=90), last_error="It failed.")
    attempted(scene, job, 1)
    attempted(
        scene, job, 2, status="timed_out", status_code=None, error_class="timeout", error="No answer within 10 s."
    )
    page = ada.get(f"/jobs/{job}")
    timeline = page[page.index('class="timeline"') : page.index("</ol>", page.index('class="timeline"'))]
    assert (
        timeline.index("planned for")
        < timeline.index("attempt=2")
        < timeline.index("attempt=1")
        < timeline.index("Submitted")
    )
    assert "250 ms after it was planned" in timeline
    assert "2 more attempts" in timeline
    assert "Attempt 3 of 5" in page and re.search(r"in 1 min 2\d s|in 1 min 30 s", page)
    assert "It failed." in page


def test_the_newest_attempt_is_laid_out_and_every_other_on_request(scene: Scene, ada: Person) -> None:
    job = scene.job(status="dead", attempts=2)
    attempted(scene, job, 1)
    attempted(scene, job, 2, headers=[["X-Why", "because"]], truncated=True)
    newest = ada.get(f"/jobs/{job}")
    assert "answer of 2" in newest and "answer of 1" not in newest
    assert "X-Why" in newest and "because" in newest and "cut after 16 KB" in newest
    older = ada.get(f"/jobs/{job}?attempt=1")
    assert "answer of 1" in older and "answer of 2" not in older
    assert "X-Job-Attempt: 1" in code_blocks(older)[1]
    for nonsense in ("0", "99", "x", "-1", "9" * 30):
        assert f'href="/jobs/{job}?attempt=2"' in ada.get(f"/jobs/{job}?attempt={nonsense}")


def test_bars_say_in_words_what_they_show(scene: Scene, ada: Person) -> None:
    job = scene.job(status="dead", attempts=1)
    attempted(scene, job)
    page = ada.get(f"/jobs/{job}")
    assert 'aria-label="Where the time went: DNS 2 ms, Connect 2 ms, First byte 986 ms, Body 10 ms"' in page


def test_a_running_job_shows_the_attempt_under_way(scene: Scene, ada: Person) -> None:
    claim, worker = scene.running()
    page = ada.get(f"/jobs/{claim.job_id}")
    assert "Attempt 1 of 5 began" in page and str(worker)[:8] in page


def test_the_live_part_has_state_and_attempts_and_no_payload(scene: Scene, ada: Person) -> None:
    job = scene.job(status="dead", attempts=1, payload='"not asked for again"')
    attempted(scene, job)
    part = ada.fragment(f"/jobs/{job}")
    assert 'id="job"' in part and "answer of 1" in part
    assert "not asked for again" not in part and "<html" not in part


def test_a_job_with_thousands_of_attempts_shows_the_newest(scene: Scene, ada: Person) -> None:
    job = scene.job(status="dead", attempts=5, attempts_before=200)
    for number in range(1, 121):
        attempted(scene, job, number, generation=number)
    page = ada.get(f"/jobs/{job}")
    assert f'"/jobs/{job}?attempt=120"' in page and f'"/jobs/{job}?attempt=20"' not in page
    assert "Older attempts" in page


def buttons(page: str) -> set[str]:
    return set(re.findall(r'action="/jobs/[0-9a-f-]{36}/(\w+)"', page))


@pytest.mark.parametrize(
    ("status", "offered"),
    [
        ("pending", {"cancel"}),
        ("scheduled", {"cancel"}),
        ("running", {"stop"}),
        ("done", {"delete"}),
        ("dead", {"retry", "delete"}),
        ("cancelled", {"delete"}),
    ],
)
def test_offers_only_what_fits_the_status_and_the_role(
    app: Flask, scene: Scene, ada: Person, status: str, offered: set[str]
) -> None:
    job = scene.job(status=status)
    assert buttons(ada.get(f"/jobs/{job}")) == offered
    vic = Person(app, "vic", "viewer")
    page = vic.get(f"/jobs/{job}")
    assert buttons(page) == set() and "Duplicate" not in page
    for action in ("retry", "cancel", "stop", "delete"):
        assert vic.post(f"/jobs/{job}/{action}").status_code == 403
    assert scene.status(job) == status


def test_retries_a_dead_job(scene: Scene, ada: Person) -> None:
    job = scene.job(status="dead")
    assert ada.post(f"/jobs/{job}/retry").headers["Location"] == f"/jobs/{job}"
    assert ada.told() == ["The job is on its way again, with all of its attempts."]
    assert scene.status(job) == "scheduled" and scene.ready() == [f"{job}:1:0"]
    page = ada.get(f"/jobs/{job}")
    assert "<b>retry</b> by <bdi>ada</bdi>" in page
    note = scene.all("audit_log")[-1]
    assert (note["action"], note["target_id"], note["actor"], note["client_id"]) == (
        "job.retry",
        str(job),
        "ada",
        scene.client_id,
    )
    assert note["address"] == "127.0.0.1"


def test_cancels_a_waiting_job(scene: Scene, ada: Person) -> None:
    job = scene.job(status="scheduled")
    ada.post(f"/jobs/{job}/cancel")
    assert scene.status(job) == "cancelled"
    assert scene.all("audit_log")[-1]["action"] == "job.cancel"


def test_asks_a_running_job_to_end(scene: Scene, ada: Person) -> None:
    claim, _ = scene.running()
    ada.post(f"/jobs/{claim.job_id}/stop")
    assert scene.status(claim.job_id) == "running" and scene.row(claim.job_id)["cancel_requested_at"] is not None
    assert scene.all("audit_log")[-1]["action"] == "job.stop"
    page = ada.get(f"/jobs/{claim.job_id}")
    assert "There will be no other" in page and buttons(page) == set()


def test_deletes_a_finished_job(scene: Scene, ada: Person) -> None:
    job = scene.job(status="done")
    attempted(scene, job)
    assert ada.post(f"/jobs/{job}/delete").headers["Location"] == "/jobs/"
    assert scene.count("jobs") == 0 and scene.count("executions") == 0
    assert scene.all("audit_log")[-1]["action"] == "job.delete"


@pytest.mark.parametrize(
    ("action", "status"), [("retry", "done"), ("cancel", "running"), ("delete", "scheduled"), ("stop", "done")]
)
def test_who_comes_too_late_is_told_and_changes_nothing(scene: Scene, ada: Person, action: str, status: str) -> None:
    job = scene.job(status=status)
    before = scene.row(job)
    notes = scene.count("audit_log")
    ada.post(f"/jobs/{job}/{action}")
    assert f"The job is {status}: only" in ada.told()[0]
    assert scene.row(job) == before and scene.count("audit_log") == notes


def test_nothing_changes_by_get(scene: Scene, ada: Person) -> None:
    job = scene.job(status="dead")
    for action in ("retry", "cancel", "delete", "stop"):
        ada.get(f"/jobs/{job}/{action}", status=405)
    assert scene.status(job) == "dead"


@pytest.mark.parametrize("hostile", HOSTILE)
def test_whatever_comes_from_outside_is_text(scene: Scene, ada: Person, hostile: str) -> None:
    job = make_job(
        scene.conn,
        scene.client_id,
        "dead",
        type=hostile,
        payload=json.dumps({hostile: hostile}, ensure_ascii=False),
        last_error=hostile,
        last_error_class="http_5xx",
        idempotency_key=hostile,
        callback_url=f"https://h/{hostile}",
        callback_host="https://h:443",
        attempts=1,
    )
    attempted(scene, job, error=hostile, body=hostile, headers=[[hostile, hostile]])
    assert_text_only(ada.get(f"/jobs/{job}"))
    assert_text_only(ada.fragment(f"/jobs/{job}"))


def test_an_answer_is_never_an_address(scene: Scene, ada: Person) -> None:
    job = scene.job(status="dead", callback_url="https://api.example.com/in", attempts=1)
    attempted(scene, job, headers=[["Location", "https://elsewhere.example/"]])
    page = ada.get(f"/jobs/{job}")
    assert "elsewhere.example" in page
    assert not re.search(r'(?:href|src)="https?://', page)
