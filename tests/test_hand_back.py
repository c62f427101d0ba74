"""Handing back what was claimed and never sent (C5, C19): the attempt did not happen."""

from __future__ import annotations

import pytest
import redis
from sqlalchemy import Connection, Engine, text

from app import jobs
from tests.factories import Scene


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


def test_the_attempt_is_given_back_and_the_job_is_due(scene: Scene) -> None:
    claimed, worker = scene.running(attempts=2, queue_generation=1)
    due_at = scene.row(claimed.job_id)["run_at"]
    back = jobs.hand_back(scene.conn, worker, [claimed])
    row = scene.row(claimed.job_id)
    assert (row["status"], row["attempts"], row["queue_generation"]) == ("scheduled", 2, 1)
    assert (row["worker"], row["lease_expires_at"]) == (None, None)
    assert row["run_at"] == due_at <= scene.now()
    assert [job.ticket for job in back.jobs] == [scene.ticket(claimed.job_id)]
    assert scene.count("executions") == scene.count("minute_stats") == 0


def test_what_was_handed_back_can_be_claimed_again(scene: Scene) -> None:
    claimed, worker = scene.running()
    jobs.hand_back(scene.conn, worker, [claimed])
    [again] = scene.claim(claimed.job_id)
    assert (again.attempt, again.number) == (claimed.attempt, claimed.number)


def test_one_to_be_cancelled_is_cancelled(scene: Scene) -> None:
    claimed, worker = scene.running()
    jobs.request_cancel(scene.conn, claimed.job_id)
    back = jobs.hand_back(scene.conn, worker, [claimed])
    row = scene.row(claimed.job_id)
    assert (row["status"], row["attempts"], back.jobs) == ("cancelled", 0, [])
    assert row["finished_at"] is not None


def test_repeating_it_changes_nothing(scene: Scene) -> None:
    claimed, worker = scene.running()
    jobs.hand_back(scene.conn, worker, [claimed])
    again = jobs.hand_back(scene.conn, worker, [claimed])
    assert (again.jobs, again.locked) == ([], [])
    assert scene.row(claimed.job_id)["attempts"] == 0


def test_a_locked_row_is_left_for_later(scene: Scene) -> None:
    worker = scene.worker()
    locked, free = scene.claim(scene.job(), scene.job(), worker=worker)
    with scene.stores.engine.begin() as holder:
        holder.execute(text("SELECT FROM jobs WHERE id = :id FOR UPDATE"), {"id": locked.job_id})
        back = jobs.hand_back(scene.conn, worker, [locked, free])
    assert [job.ticket.job_id for job in back.jobs] == [str(free.job_id)]
    assert back.locked == [locked]
    assert scene.status(locked.job_id) == "running"
    assert len(jobs.hand_back(scene.conn, worker, back.locked).jobs) == 1


def test_one_row_that_the_table_refuses_does_not_fail_the_batch(scene: Scene) -> None:
    worker = scene.worker()
    claims = scene.claim(*(scene.job() for _ in range(5)), worker=worker)
    bad = claims[1].job_id
    scene.conn.execute(text(f"ALTER TABLE jobs ADD CONSTRAINT bad_row CHECK (id <> '{bad}' OR status <> 'scheduled')"))
    try:
        back = jobs.hand_back(scene.conn, worker, claims)
    finally:
        scene.conn.execute(text("ALTER TABLE jobs DROP CONSTRAINT bad_row"))
    assert {job.ticket.job_id for job in back.jobs} == {str(held.job_id) for held in claims if held.job_id != bad}
    assert (scene.status(bad), back.locked) == ("running", [])


def test_nothing_is_nothing(scene: Scene) -> None:
    assert jobs.hand_back(scene.conn, scene.worker(), []).jobs == []
