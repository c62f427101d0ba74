"""Retention (C22): what goes, what stays however old it is."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
import redis
from sqlalchemy import Connection, Engine, text

from app import jobs
from scheduler.pruner import Pruner
from tests.factories import Scene, to_record


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


@pytest.fixture
def pruner(scene: Scene) -> Pruner:
    return Pruner(scene.stores, 30, 90)


def finished(scene: Scene, status: str, days: float) -> UUID:
    return scene.job(status, finished_at=scene.now() - timedelta(days=days))


def left(scene: Scene) -> set[UUID]:
    return {row["id"] for row in scene.all("jobs")}


def occurrence(scene: Scene, entry: int, days: float, **columns: object) -> None:
    nominal_at = scene.now() - timedelta(days=days)
    values = {"cron_entry_id": entry, "nominal_at": nominal_at, "status": "skipped", "reason": "missed", **columns}
    names = ", ".join(values)
    scene.conn.execute(
        text(f"INSERT INTO cron_occurrences ({names}) VALUES ({', '.join(f':{name}' for name in values)})"), values
    )


def test_finished_jobs_go_when_their_time_is_over(scene: Scene, pruner: Pruner) -> None:
    for status in ("done", "cancelled"):
        finished(scene, status, 30.01)
    finished(scene, "dead", 90.01)
    kept = {finished(scene, status, 29.99) for status in ("done", "cancelled")} | {finished(scene, "dead", 89.99)}
    assert pruner.run_once() > 0
    assert left(scene) == kept


@pytest.mark.parametrize("status", ["pending", "scheduled", "running"])
def test_what_is_not_finished_stays_however_old(scene: Scene, pruner: Pruner, status: str) -> None:
    old = scene.now() - timedelta(days=1000)
    job_id = scene.job(status, created_at=old, updated_at=old, run_at=old)
    pruner.run_once()
    assert left(scene) == {job_id}


def test_executions_go_with_their_job_and_counts_stay(scene: Scene, pruner: Pruner) -> None:
    claimed, worker = scene.running()
    jobs.record(scene.conn, [to_record(claimed, worker, "done")])
    scene.change(claimed.job_id, finished_at=scene.now() - timedelta(days=31))
    pruner.run_once()
    assert (scene.count("jobs"), scene.count("executions"), scene.count("minute_stats")) == (0, 0, 1)


def test_many_are_deleted_in_batches(scene: Scene, pruner: Pruner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.pruner.BATCH", 3)
    monkeypatch.setattr("scheduler.pruner.BATCHES_PER_PASS", 2)
    for _ in range(8):
        finished(scene, "done", 31)
    pruner.run_once()
    assert scene.count("jobs") == 2
    pruner.run_once()
    assert scene.count("jobs") == 0


def test_a_locked_job_is_skipped(scene: Scene, pruner: Pruner) -> None:
    locked = finished(scene, "dead", 91)
    finished(scene, "dead", 91)
    with scene.stores.engine.begin() as holder:
        holder.execute(text("SELECT FROM jobs WHERE id = :id FOR UPDATE"), {"id": locked})
        pruner.run_once()
    assert left(scene) == {locked}


def test_old_occurrences_go_and_none_at_or_after_the_next_run(scene: Scene, pruner: Pruner) -> None:
    """One that is still to be fired is what keeps it from firing twice."""
    live = scene.entry(next_run_at=scene.now() + timedelta(minutes=1))
    behind = scene.entry(next_run_at=scene.now() - timedelta(days=40))
    never_again = scene.entry(next_run_at=None)
    for entry in (live, behind, never_again):
        occurrence(scene, entry, 50)
        occurrence(scene, entry, 35)
        occurrence(scene, entry, 29)
    pruner.run_once()
    kept = [(row["cron_entry_id"], (scene.now() - row["nominal_at"]).days) for row in scene.all("cron_occurrences")]
    assert sorted(kept) == sorted([(live, 29), (behind, 35), (behind, 29), (never_again, 29)])


def test_a_buffered_occurrence_stays(scene: Scene, pruner: Pruner) -> None:
    occurrence(scene, scene.entry(), 50, status="buffered", reason=None)
    pruner.run_once()
    assert scene.count("cron_occurrences") == 1


def test_a_merged_row_stays_as_long_as_the_last_it_stands_for(scene: Scene, pruner: Pruner) -> None:
    entry = scene.entry()
    occurrence(scene, entry, 50, count=1000, through_at=scene.now() - timedelta(days=29))
    occurrence(scene, entry, 51, count=1000, through_at=scene.now() - timedelta(days=31))
    pruner.run_once()
    assert [row["through_at"] > scene.now() - timedelta(days=30) for row in scene.all("cron_occurrences")] == [True]


def test_process_rows_go_a_day_after_their_last_beat_unless_a_job_runs_under_them(scene: Scene, pruner: Pruner) -> None:
    day = 24 * 3600
    fresh, silent, running = (
        scene.worker(silent_seconds=day - 60),
        scene.worker(silent_seconds=day + 60),
        scene.worker(),
    )
    scene.claim(scene.job(), worker=running)
    scene.conn.execute(
        text("UPDATE processes SET beat_at = punctual_now() - interval '2 days' WHERE id = :id"), {"id": running}
    )
    pruner.run_once()
    assert {row["id"] for row in scene.all("processes")} == {fresh, running}
    assert silent not in {fresh, running}


def test_ended_operations_and_untroubled_hosts_go(scene: Scene, pruner: Pruner) -> None:
    for state, days in (("done", 31), ("done", 29), ("waiting", 400)):
        scene.conn.execute(
            text("""
                INSERT INTO bulk_operations (action, filter, through_id, matched, actor_kind, actor, state, created_at, finished_at)
                VALUES ('retry', '{}', gen_random_uuid(), 1, 'user', 'ada', :state, punctual_now() - make_interval(days => :days),
                        CASE WHEN :state <> 'waiting' THEN punctual_now() - make_interval(days => :days) END)
            """).bindparams(state=state, days=days)
        )
    for host, openings, hours in (("http://quiet:80", 0, 25), ("http://busy:80", 0, 23), ("http://opened:80", 1, 400)):
        scene.conn.execute(
            text("""
                INSERT INTO circuits (client_id, host, openings, spans, successes, failures, changed_at)
                VALUES (:client, :host, :openings, ARRAY[punctual_now() - make_interval(hours => :hours)], '{1}', '{0}',
                        punctual_now() - interval '100 days')
            """),
            {"client": scene.client_id, "host": host, "openings": openings, "hours": hours},
        )
    pruner.run_once()
    assert scene.count("bulk_operations") == 2
    assert {row["host"] for row in scene.all("circuits")} == {"http://busy:80", "http://opened:80"}
