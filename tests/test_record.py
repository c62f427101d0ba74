"""Recording (C5, C6, C7, C10, C11): jobs, executions and the minute's counts, in one statement that can be repeated."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import redis
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import OperationalError, ProgrammingError

from app import jobs
from app.jobs.stats import BOUNDS_MS, BUCKETS, bucket
from tests.factories import Scene, as_json, ending, lost, to_record


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


def everything(scene: Scene) -> list[str]:
    """All that recording may write."""
    return [as_json(row) for table in ("jobs", "executions", "minute_stats") for row in scene.all(table)]


def test_a_success_makes_the_job_done(scene: Scene) -> None:
    claimed, worker = scene.running(attempts_before=3, last_error="earlier")
    item = to_record(claimed, worker, "done", response_body="answer")
    [recorded] = jobs.record(scene.conn, [item])
    assert (recorded.outcome, recorded.status, recorded.ending) == ("applied", "done", item.ending)
    row = scene.row(claimed.job_id)
    assert (row["status"], row["worker"], row["lease_expires_at"]) == ("done", None, None)
    assert row["finished_at"] == recorded.now
    assert (row["last_error"], row["last_error_class"], row["last_status_code"]) == (None, None, 200)
    [execution] = scene.executions(claimed.job_id)
    assert (execution["number"], execution["attempt"], execution["status"]) == (4, 1, "succeeded")
    assert (execution["due_at"], execution["worker"]) == (claimed.due_at, worker)
    assert execution["response_headers"] == [["Content-Type", "text/plain"]]
    assert (execution["response_body"], execution["timings"]) == ("answer", {"total": 20.0})


def test_a_retry_waits_from_when_it_is_recorded(scene: Scene) -> None:
    claimed, worker = scene.running()
    [recorded] = jobs.record(scene.conn, [to_record(claimed, worker, "scheduled", delay_seconds=7.5)])
    row = scene.row(claimed.job_id)
    assert (row["status"], row["attempts"], row["finished_at"]) == ("scheduled", 1, None)
    assert recorded.now is not None
    assert row["run_at"] == recorded.run_at == recorded.now + timedelta(seconds=7.5)
    assert row["scheduled_for"] == claimed.due_at
    assert (row["last_error"], row["last_error_class"]) == ("The receiver answered 500.", "http_status")
    assert scene.executions(claimed.job_id)[0]["status"] == "failed"


def test_the_last_attempt_makes_the_job_dead(scene: Scene) -> None:
    claimed, worker = scene.running(attempts=4)
    jobs.record(scene.conn, [to_record(claimed, worker, "dead", error_class="timeout")])
    row = scene.row(claimed.job_id)
    assert (row["status"], row["last_error_class"]) == ("dead", "timeout")
    assert row["finished_at"] is not None
    assert scene.executions(claimed.job_id)[0]["status"] == "timed_out"


def test_a_whole_batch_is_stored_in_one_go(scene: Scene) -> None:
    worker = scene.worker()
    claims = scene.claim(*(scene.job() for _ in range(60)), worker=worker)
    statuses = ["done", "scheduled", "dead"] * 20
    batch = [to_record(held, worker, status) for held, status in zip(claims, statuses, strict=True)]
    recorded = jobs.record(scene.conn, batch)
    assert len(recorded) == 60
    assert {item.ending.claim.job_id: item.status for item in recorded} == {
        held.job_id: status for held, status in zip(claims, statuses, strict=True)
    }
    assert scene.count("executions") == 60
    assert jobs.record(scene.conn, []) == []


# Repeating (C7)


@pytest.mark.parametrize("next_status", ["done", "scheduled", "dead"])
def test_repeating_it_changes_nothing(scene: Scene, next_status: str) -> None:
    claimed, worker = scene.running()
    item = to_record(claimed, worker, next_status)
    jobs.record(scene.conn, [item])
    before = everything(scene)
    [again] = jobs.record(scene.conn, [item])
    assert again.outcome == "late"
    assert everything(scene) == before


def test_repeating_a_loss_changes_nothing(scene: Scene) -> None:
    claimed, worker = scene.running()
    jobs.record(scene.conn, [lost(claimed, worker)])
    before = everything(scene)
    jobs.record(scene.conn, [lost(claimed, worker)])
    assert everything(scene) == before


# One bad row (C6)

UNSTORABLE: dict[str, dict[str, Any]] = {
    "a NUL in the body": {"response_body": "a\x00b"},
    "a NUL in the error": {"error": "a\x00b"},
    "a NUL in a header": {"response_headers": (("X", "a\x00b"),)},
    "a lone surrogate in the body": {"response_body": "a\ud800b"},
    "a lone surrogate in a header": {"response_headers": (("X", "\udc80"),)},
    "a timing that is no number": {"timings": {"total": float("nan")}},
    "an error class too long": {"error_class": "x" * 40},
    "a status code no column holds": {"status_code": 70_000},
    "a status code no type holds": {"status_code": 10**30},
}


@pytest.mark.parametrize("what", UNSTORABLE)
def test_one_bad_answer_does_not_fail_the_batch(scene: Scene, what: str) -> None:
    worker = scene.worker()
    claims = scene.claim(*(scene.job() for _ in range(10)), worker=worker)
    batch = [to_record(held, worker, "scheduled") for held in claims]
    batch[6] = to_record(claims[6], worker, "scheduled", **UNSTORABLE[what])
    recorded = jobs.record(scene.conn, batch)
    assert [item.outcome for item in recorded] == ["applied"] * 10
    good = [held.job_id for held in claims if held is not claims[6]]
    assert [scene.status(job_id) for job_id in good] == ["scheduled"] * 9
    assert scene.status(claims[6].job_id) in ("scheduled", "dead")
    assert len(scene.executions(claims[6].job_id)) == 1
    assert scene.count("executions") == 10


@pytest.mark.parametrize("what", [name for name, answer in UNSTORABLE.items() if "error_class" not in answer])
def test_a_success_stays_one_without_its_text(scene: Scene, what: str) -> None:
    claimed, worker = scene.running()
    jobs.record(scene.conn, [to_record(claimed, worker, "done", **UNSTORABLE[what])])
    [execution] = scene.executions(claimed.job_id)
    assert (scene.status(claimed.job_id), execution["status"]) == ("done", "succeeded")
    assert (execution["response_body"], execution["response_truncated"]) == ("", True)


def test_a_failure_that_is_stored_without_its_text_is_still_retried(scene: Scene) -> None:
    claimed, worker = scene.running()
    [recorded] = jobs.record(scene.conn, [to_record(claimed, worker, "scheduled", response_body="\x00")])
    assert recorded.status == "scheduled"
    row = scene.row(claimed.job_id)
    assert (row["last_error_class"], row["last_status_code"]) == ("http_status", 500)


def test_a_row_that_the_table_refuses_is_buried_and_the_others_go_on(scene: Scene) -> None:
    worker = scene.worker()
    claims = scene.claim(*(scene.job() for _ in range(5)), worker=worker)
    bad = claims[2].job_id
    scene.conn.execute(text(f"ALTER TABLE jobs ADD CONSTRAINT bad_row CHECK (id <> '{bad}' OR status <> 'scheduled')"))
    try:
        recorded = jobs.record(scene.conn, [to_record(held, worker, "scheduled") for held in claims])
    finally:
        scene.conn.execute(text("ALTER TABLE jobs DROP CONSTRAINT bad_row"))
    assert [item.status for item in recorded] == ["scheduled", "scheduled", "dead", "scheduled", "scheduled"]
    assert scene.row(bad)["last_error_class"] == "unrecordable"
    assert scene.executions(bad)[0]["error_class"] == "unrecordable"


def test_a_row_that_takes_no_end_at_all_does_not_fail_the_batch(scene: Scene) -> None:
    worker = scene.worker()
    claims = scene.claim(*(scene.job() for _ in range(4)), worker=worker)
    bad = claims[0].job_id
    scene.conn.execute(text(f"ALTER TABLE jobs ADD CONSTRAINT bad_row CHECK (id <> '{bad}' OR status = 'running')"))
    try:
        recorded = jobs.record(scene.conn, [to_record(held, worker, "done") for held in claims])
    finally:
        scene.conn.execute(text("ALTER TABLE jobs DROP CONSTRAINT bad_row"))
    assert [item.outcome for item in recorded] == ["refused", "applied", "applied", "applied"]
    assert scene.status(bad) == "running"


def test_an_error_that_is_no_rows_buries_nothing(scene: Scene) -> None:
    claimed, worker = scene.running()
    scene.conn.execute(text("ALTER TABLE executions RENAME COLUMN timings TO hidden"))
    try:
        with pytest.raises(ProgrammingError):
            jobs.record(scene.conn, [to_record(claimed, worker, "done")])
    finally:
        scene.conn.execute(text("ALTER TABLE executions RENAME COLUMN hidden TO timings"))
    assert scene.status(claimed.job_id) == "running"


def test_a_deadlock_is_passed_on_to_be_tried_again(scene: Scene) -> None:
    claimed, worker = scene.running()
    scene.conn.execute(text("SET statement_timeout = '50ms'"))
    try:
        with scene.stores.engine.begin() as holder:
            holder.execute(text("LOCK TABLE executions IN ACCESS EXCLUSIVE MODE"))
            with pytest.raises(OperationalError):
                jobs.record(scene.conn, [to_record(claimed, worker, "done")])
    finally:
        scene.conn.execute(text("RESET statement_timeout"))
    assert jobs.record(scene.conn, [to_record(claimed, worker, "done")])[0].outcome == "applied"


def test_a_locked_row_is_left_for_a_later_batch(scene: Scene) -> None:
    worker = scene.worker()
    locked, free = scene.claim(scene.job(), scene.job(), worker=worker)
    batch = [to_record(locked, worker, "done"), to_record(free, worker, "done")]
    with scene.stores.engine.begin() as holder:
        holder.execute(text("SELECT FROM jobs WHERE id = :id FOR UPDATE"), {"id": locked.job_id})
        outcomes = {item.ending.claim.job_id: item.outcome for item in jobs.record(scene.conn, batch)}
    assert outcomes == {locked.job_id: "again", free.job_id: "applied"}
    assert scene.executions(locked.job_id) == []
    assert jobs.record(scene.conn, batch[:1])[0].outcome == "applied"
    assert scene.count("executions") == 2


# Late results (C10)


def test_a_late_success_replaces_the_loss_and_decides_the_job(scene: Scene) -> None:
    claimed, worker = scene.running()
    jobs.record(scene.conn, [lost(claimed, worker)])
    assert (scene.status(claimed.job_id), scene.executions(claimed.job_id)[0]["status"]) == ("scheduled", "lost")
    [late] = jobs.record(scene.conn, [to_record(claimed, worker, "done")])
    assert (late.outcome, late.status) == ("applied", "done")
    [execution] = scene.executions(claimed.job_id)
    assert (execution["status"], execution["response_body"], execution["error_class"]) == ("succeeded", "ok", None)
    assert scene.row(claimed.job_id)["last_error"] is None


def test_a_late_failure_decides_when_the_next_attempt_is(scene: Scene) -> None:
    claimed, worker = scene.running()
    jobs.record(scene.conn, [lost(claimed, worker)])
    [late] = jobs.record(scene.conn, [to_record(claimed, worker, "scheduled", delay_seconds=100)])
    assert (late.outcome, late.status) == ("applied", "scheduled")
    assert late.now is not None and scene.row(claimed.job_id)["run_at"] == late.now + timedelta(seconds=100)
    assert scene.row(claimed.job_id)["attempts"] == 1


def test_a_late_success_raises_a_job_that_died_by_that_loss(scene: Scene) -> None:
    claimed, worker = scene.running(attempts=4)
    jobs.record(scene.conn, [lost(claimed, worker, "dead")])
    assert scene.status(claimed.job_id) == "dead"
    [late] = jobs.record(scene.conn, [to_record(claimed, worker, "done")])
    assert (late.outcome, scene.status(claimed.job_id)) == ("applied", "done")


def test_after_a_new_claim_a_late_result_is_only_on_record(scene: Scene) -> None:
    claimed, worker = scene.running()
    jobs.record(scene.conn, [lost(claimed, worker)])
    scene.change(claimed.job_id, run_at=scene.now())
    second_worker = scene.worker()
    [second] = scene.claim(claimed.job_id, worker=second_worker)
    before = as_json(scene.row(claimed.job_id))
    [late] = jobs.record(scene.conn, [to_record(claimed, worker, "done")])
    assert late.outcome == "late"
    assert as_json(scene.row(claimed.job_id)) == before
    assert scene.executions(claimed.job_id)[0]["status"] == "succeeded"
    assert jobs.record(scene.conn, [to_record(second, second_worker, "dead")])[0].status == "dead"
    assert [execution["status"] for execution in scene.executions(claimed.job_id)] == ["succeeded", "failed"]


def test_after_a_retry_by_hand_a_late_result_is_only_on_record(scene: Scene) -> None:
    claimed, worker = scene.running(attempts=4)
    jobs.record(scene.conn, [lost(claimed, worker, "dead")])
    jobs.retry(scene.stores, scene.client_id, claimed.job_id)
    [late] = jobs.record(scene.conn, [to_record(claimed, worker, "done")])
    assert (late.outcome, scene.status(claimed.job_id)) == ("late", "scheduled")
    assert scene.executions(claimed.job_id)[0]["status"] == "succeeded"


@pytest.mark.parametrize("status", ["cancelled", "done"])
def test_a_late_result_does_not_change_a_job_that_ended_otherwise(scene: Scene, status: str) -> None:
    claimed, worker = scene.running()
    jobs.record(scene.conn, [lost(claimed, worker)])
    scene.change(claimed.job_id, status=status, finished_at=scene.now())
    [late] = jobs.record(scene.conn, [to_record(claimed, worker, "scheduled")])
    assert (late.outcome, scene.status(claimed.job_id)) == ("late", status)


def test_a_late_result_does_not_raise_a_job_that_died_of_something_else(scene: Scene) -> None:
    claimed, worker = scene.running()
    jobs.record(scene.conn, [lost(claimed, worker)])
    scene.change(claimed.job_id, status="dead", finished_at=scene.now(), last_error_class="http_status")
    [late] = jobs.record(scene.conn, [to_record(claimed, worker, "done")])
    assert (late.outcome, scene.status(claimed.job_id)) == ("late", "dead")


def test_a_late_result_replaces_no_loss_of_another_worker(scene: Scene) -> None:
    claimed, worker = scene.running()
    jobs.record(scene.conn, [lost(claimed, worker)])
    [late] = jobs.record(scene.conn, [to_record(claimed, scene.worker(), "done")])
    assert (late.outcome, scene.status(claimed.job_id)) == ("late", "scheduled")
    assert scene.executions(claimed.job_id)[0]["status"] == "lost"


def test_a_late_result_of_a_handed_back_attempt_changes_nothing_that_runs(scene: Scene) -> None:
    """The next worker's attempt has the same number: only the worker tells the two apart."""
    claimed, worker = scene.running()
    jobs.hand_back(scene.conn, worker, [claimed])
    second_worker = scene.worker()
    [second] = scene.claim(claimed.job_id, worker=second_worker)
    assert second.fence == claimed.fence
    [late] = jobs.record(scene.conn, [to_record(claimed, worker, "dead")])
    assert (late.outcome, scene.status(claimed.job_id)) == ("late", "running")


def test_a_result_of_a_pruned_job_is_dropped(scene: Scene) -> None:
    claimed, worker = scene.running()
    scene.conn.execute(text("DELETE FROM jobs WHERE id = :id"), {"id": claimed.job_id})
    [late] = jobs.record(scene.conn, [to_record(claimed, worker, "done")])
    assert late.outcome == "late" and scene.count("executions") == 0


@pytest.mark.parametrize("seconds", [-1, 1])
def test_a_lease_that_was_extended_meanwhile_is_no_loss(scene: Scene, seconds: int) -> None:
    claimed, worker = scene.running()
    scene.change(claimed.job_id, lease_expires_at=scene.now() + timedelta(seconds=seconds))
    [judged] = jobs.record(scene.conn, [lost(claimed, worker, lease_ended=True)])
    assert (judged.outcome, scene.status(claimed.job_id)) == (
        ("applied", "scheduled") if seconds < 0 else ("late", "running")
    )
    assert scene.count("executions") == (1 if seconds < 0 else 0)


# Cancelling what runs (C11)


@pytest.mark.parametrize(("next_status", "becomes"), [("scheduled", "cancelled"), ("done", "done"), ("dead", "dead")])
def test_a_running_job_that_was_to_be_cancelled_is_not_retried(scene: Scene, next_status: str, becomes: str) -> None:
    claimed, worker = scene.running()
    assert jobs.request_cancel(scene.conn, claimed.job_id)
    [recorded] = jobs.record(scene.conn, [to_record(claimed, worker, next_status)])
    assert (recorded.outcome, recorded.status) == ("applied", becomes)
    row = scene.row(claimed.job_id)
    assert row["status"] == becomes and row["finished_at"] is not None
    assert len(scene.executions(claimed.job_id)) == 1


def test_a_lost_attempt_of_a_job_to_be_cancelled_is_not_retried(scene: Scene) -> None:
    claimed, worker = scene.running()
    jobs.request_cancel(scene.conn, claimed.job_id)
    assert jobs.record(scene.conn, [lost(claimed, worker)])[0].status == "cancelled"


# The minute's counts


@pytest.mark.parametrize(
    ("milliseconds", "index"), [(-5, 0), (0, 0), (1, 0), (1.01, 1), (2, 1), (100, 6), (300_000, 15), (300_001, 16)]
)
def test_a_value_falls_into_the_bucket_whose_bound_it_does_not_pass(milliseconds: float, index: int) -> None:
    assert bucket(milliseconds) == index
    assert BUCKETS == len(BOUNDS_MS) + 1


def test_ended_attempts_are_counted_by_outcome(scene: Scene) -> None:
    worker = scene.worker()
    claims = scene.claim(*(scene.job() for _ in range(9)), worker=worker)
    statuses = ["done"] * 4 + ["scheduled"] * 3 + ["dead"] * 2
    jobs.record(scene.conn, [to_record(c, worker, s) for c, s in zip(claims[:5], statuses[:5], strict=True)])
    jobs.record(scene.conn, [to_record(c, worker, s) for c, s in zip(claims[5:], statuses[5:], strict=True)])
    to_cancel, to_lose = scene.claim(scene.job(), scene.job(), worker=worker)
    jobs.request_cancel(scene.conn, to_cancel.job_id)
    jobs.record(scene.conn, [to_record(to_cancel, worker, "scheduled"), lost(to_lose, worker)])
    query = text("SELECT outcome, sum(count) FROM minute_stats GROUP BY outcome")
    assert dict(scene.conn.execute(query).all()) == {
        "succeeded": 4,
        "retried": 3,
        "dead": 2,
        "cancelled": 1,
        "lost": 1,
    }


def test_counts_fall_into_buckets_and_add_up(scene: Scene) -> None:
    worker = scene.worker()
    for milliseconds in (20, 20, 700):
        [claimed] = scene.claim(scene.job(), worker=worker)
        answer = ending(claimed, "done").answer
        started_at = claimed.due_at + timedelta(milliseconds=3)
        timed = replace(answer, started_at=started_at, finished_at=started_at + timedelta(milliseconds=milliseconds))
        item = to_record(claimed, worker, "done")
        jobs.record(scene.conn, [replace(item, ending=replace(item.ending, answer=timed))])
    lag, time = [0] * BUCKETS, [0] * BUCKETS
    for row in scene.all("minute_stats"):
        assert row["minute"].second == 0 and row["client_id"] == scene.client_id
        lag = [a + b for a, b in zip(lag, row["start_lag_buckets"], strict=True)]
        time = [a + b for a, b in zip(time, row["callback_time_buckets"], strict=True)]
    assert (lag[bucket(3)], sum(lag)) == (3, 3)
    assert (time[bucket(20)], time[bucket(700)], sum(time)) == (2, 1, 3)
