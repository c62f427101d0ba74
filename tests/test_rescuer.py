"""Lost attempts (C17): who is declared lost, when nobody is judged, and what becomes of the jobs."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
import redis
from sqlalchemy import Connection, Engine, text

from app import jobs, processes
from app.attempts import Claim
from app.jobs.rescue import NIL, lost_claims
from app.processes import SILENCE_SECONDS
from app.redis_keys import GROUP
from app.stream import to_score
from scheduler.rescuer import Rescuer
from scheduler.run import Beats
from tests.factories import Scene, as_json, shifted, to_record


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


@pytest.fixture
def rescuer(scene: Scene) -> Rescuer:
    return rescuer_on(scene)


def rescuer_on(scene: Scene, steady_seconds: float = 3600) -> Rescuer:
    return Rescuer(scene.stores, scene.clock(), lambda: steady_seconds)


def silence(scene: Scene, worker: UUID, seconds: float) -> None:
    scene.conn.execute(
        text("UPDATE processes SET beat_at = punctual_now() - make_interval(secs => :s) WHERE id = :id"),
        {"s": seconds, "id": worker},
    )


def lose(scene: Scene, worker: UUID, claimed: Claim, how: str) -> None:
    if how == "no row":
        scene.conn.execute(text("DELETE FROM processes WHERE id = :id"), {"id": worker})
    elif how == "silent":
        silence(scene, worker, SILENCE_SECONDS + 0.1)
    elif how == "stopped":
        processes.stop(scene.conn, worker)
    else:
        scene.change(claimed.job_id, lease_expires_at=scene.now() - timedelta(milliseconds=1))


HOW = ["no row", "silent", "stopped", "lease ended"]


@pytest.mark.parametrize("how", HOW)
def test_a_lost_attempt_is_recorded_and_retried(scene: Scene, rescuer: Rescuer, how: str) -> None:
    claimed, worker = scene.running(attempts=1, queue_generation=1)
    lose(scene, worker, claimed, how)
    rescuer.run_once()
    row = scene.row(claimed.job_id)
    assert (row["status"], row["attempts"], row["last_error_class"], row["worker"]) == ("scheduled", 2, "lost", None)
    # Attempt 2 waits between 1 and 2 s.
    assert timedelta(seconds=1) <= row["run_at"] - row["updated_at"] <= timedelta(seconds=2)
    [execution] = scene.executions(claimed.job_id)
    assert (execution["status"], execution["error_class"], execution["worker"]) == ("lost", "lost", worker)
    assert execution["started_at"] == row["started_at"]
    assert scene.scheduled() == {f"{claimed.job_id}:1:2": to_score(row["run_at"])}
    assert rescuer.lost == 1


@pytest.mark.parametrize("how", HOW)
def test_the_last_attempt_that_is_lost_makes_the_job_dead(scene: Scene, rescuer: Rescuer, how: str) -> None:
    """A callback that kills its worker each time dies too."""
    claimed, worker = scene.running(attempts=4)
    lose(scene, worker, claimed, how)
    rescuer.run_once()
    row = scene.row(claimed.job_id)
    assert (row["status"], row["last_error_class"]) == ("dead", "lost")
    assert scene.on_the_way() == []


def test_a_callback_that_kills_its_worker_each_time_dies(scene: Scene, rescuer: Rescuer) -> None:
    job_id = scene.job(max_attempts=3)
    for _ in range(3):
        worker = scene.worker()
        scene.change(job_id, run_at=scene.now())
        scene.claim(job_id, worker=worker)
        lose(scene, worker, None, "no row")  # type: ignore[arg-type]
        rescuer.run_once()
    assert scene.status(job_id) == "dead"
    assert [execution["status"] for execution in scene.executions(job_id)] == ["lost"] * 3


@pytest.mark.parametrize("silent_seconds", [0, SILENCE_SECONDS - 1])
def test_a_living_worker_keeps_its_jobs(scene: Scene, rescuer: Rescuer, silent_seconds: float) -> None:
    claimed, worker = scene.running()
    silence(scene, worker, silent_seconds)
    before = as_json(scene.row(claimed.job_id))
    rescuer.run_once()
    assert as_json(scene.row(claimed.job_id)) == before
    assert scene.executions(claimed.job_id) == []


def test_a_lost_worker_is_lost_for_good(scene: Scene, rescuer: Rescuer) -> None:
    worker = scene.worker(silent_seconds=SILENCE_SECONDS + 1)
    rescuer.run_once()
    assert processes.beat(scene.conn, worker, {}) is None
    assert processes.alive_workers(scene.conn) == set()
    # Registering again, as after a lost connection, does not raise it.
    processes.register(scene.conn, worker, "worker")
    assert processes.beat(scene.conn, worker, {}) is None


def test_a_scheduler_that_was_declared_lost_comes_back(scene: Scene, rescuer: Rescuer) -> None:
    """It holds no claims: its row says again that it lives."""
    scheduler = scene.worker(kind="scheduler", silent_seconds=SILENCE_SECONDS + 1)
    rescuer.run_once()
    assert processes.beat(scene.conn, scheduler, {}) is None
    processes.register(scene.conn, scheduler, "scheduler")
    assert processes.beat(scene.conn, scheduler, {}) is not None


def test_a_process_that_stopped_in_order_is_not_lost(scene: Scene) -> None:
    worker = scene.worker(silent_seconds=3600, stopped=True)
    assert processes.mark_lost(scene.conn) == []
    assert worker


@pytest.mark.parametrize("steady_seconds", [0, SILENCE_SECONDS - 0.1])
def test_nobody_is_judged_before_the_beats_are_steady(scene: Scene, steady_seconds: float) -> None:
    """After an outage of PostgreSQL, or a pause, workers first store what they hold."""
    claims = []
    for how in HOW:
        claimed, worker = scene.running()
        lose(scene, worker, claimed, how)
        claims.append((claimed, worker))
    rescuer_on(scene, steady_seconds).run_once()
    assert {scene.status(claimed.job_id) for claimed, _ in claims} == {"running"}
    assert scene.count("processes", "lost_at IS NOT NULL") == 0
    recorded = jobs.record(scene.conn, [to_record(claimed, worker, "done") for claimed, worker in claims])
    assert {item.outcome for item in recorded} == {"applied"}


def test_a_lease_that_is_extended_between_look_and_record_is_kept(
    scene: Scene, rescuer: Rescuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed, worker = scene.running()
    scene.change(claimed.job_id, lease_expires_at=scene.now() - timedelta(seconds=1))
    record = jobs.record

    def extend_first(conn: Connection, batch: list[jobs.ToRecord]) -> list[jobs.Recorded]:
        jobs.extend_leases(scene.conn, worker, [claimed.job_id])
        return record(conn, batch)

    monkeypatch.setattr(jobs, "record", extend_first)
    rescuer.run_once()
    assert (scene.status(claimed.job_id), scene.executions(claimed.job_id)) == ("running", [])


def test_many_lost_attempts_are_taken_in_bounded_batches(
    scene: Scene, rescuer: Rescuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.rescuer.MOST", 3)
    worker = scene.worker()
    claims = scene.claim(*(scene.job() for _ in range(8)), worker=worker)
    processes.stop(scene.conn, worker)
    rescuer.run_once()
    assert {scene.status(claimed.job_id) for claimed in claims} == {"scheduled"}
    assert len(scene.scheduled()) == 8


def test_payloads_are_not_fetched_to_judge_an_attempt(scene: Scene) -> None:
    """Five hundred lost jobs of a megabyte each must fit into the leader's memory."""
    claimed, worker = scene.running()
    processes.stop(scene.conn, worker)
    [found] = lost_claims(scene.conn, NIL, 10)
    assert found.claim == replace(claimed, body=None, claimed_at=found.claim.claimed_at)


def test_a_locked_row_is_judged_in_the_next_pass(scene: Scene, rescuer: Rescuer) -> None:
    claimed, worker = scene.running()
    processes.stop(scene.conn, worker)
    with scene.stores.engine.begin() as holder:
        holder.execute(text("SELECT FROM jobs WHERE id = :id FOR UPDATE"), {"id": claimed.job_id})
        rescuer.run_once()
        assert scene.executions(claimed.job_id) == []
    rescuer.run_once()
    assert scene.status(claimed.job_id) == "scheduled"


def test_a_job_to_be_cancelled_is_cancelled_with_its_lost_attempt(scene: Scene, rescuer: Rescuer) -> None:
    claimed, worker = scene.running()
    jobs.request_cancel(scene.conn, claimed.job_id)
    processes.stop(scene.conn, worker)
    rescuer.run_once()
    assert (scene.status(claimed.job_id), scene.on_the_way()) == ("cancelled", [])


def test_the_stream_is_cleared_of_what_workers_left(
    scene: Scene, rescuer: Rescuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.rescuer.PENDING_IDLE_MS", 0)
    stream, living = scene.stream, scene.worker()
    stream.create_group()
    scene.stream.client.xadd(scene.keys.ready, {"j": str(scene.job()), "g": 0, "a": 0})
    stream.client.xgroup_createconsumer(scene.keys.ready, GROUP, str(living))
    assert len(stream.read("gone", 10, 1)) == 1
    rescuer.clear_stream()
    names = [consumer["name"] for consumer in stream.client.xinfo_consumers(scene.keys.ready, GROUP)]
    assert (names, scene.ready()) == ([str(living).encode()], [])


def test_an_emptied_redis_does_not_stop_the_judging(scene: Scene, rescuer: Rescuer) -> None:
    claimed, worker = scene.running()
    processes.stop(scene.conn, worker)
    scene.stream.client.flushdb()
    rescuer.run_once()
    assert scene.status(claimed.job_id) == "scheduled"


# How long this process's own beats have been steady


class Hours:
    """Stands in for boottime: passes when told to."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> Hours:
    hours = Hours()
    monkeypatch.setattr("scheduler.run.boottime", hours)
    return hours


def beats_on(scene: Scene) -> Beats:
    return Beats(scene.stores, scene.clock(), UUID(int=9), lambda: True)


def beat_for(scene: Scene, beats: Beats, hours: Hours, seconds: int, shift: float = 0) -> None:
    for _ in range(seconds // 3):
        hours.seconds += 3
        with shifted(scene.conn, shift + hours.seconds - 1000):
            beats.step()


def test_beats_without_a_gap_are_steady(scene: Scene, hours: Hours) -> None:
    beats = beats_on(scene)
    beats.step()
    assert beats.steady_seconds() == 0
    beat_for(scene, beats, hours, 12)
    assert beats.steady_seconds() == 12


def test_a_pause_begins_the_count_anew(scene: Scene, hours: Hours) -> None:
    beats = beats_on(scene)
    beats.step()
    beat_for(scene, beats, hours, 30)
    hours.seconds += 20
    assert beats.steady_seconds() == 0
    beat_for(scene, beats, hours, 9)
    assert beats.steady_seconds() <= 9


def test_a_jump_of_postgresqls_clock_begins_the_count_anew(scene: Scene, hours: Hours) -> None:
    """Else each worker's last beat would look an hour old."""
    beats = beats_on(scene)
    beats.step()
    beat_for(scene, beats, hours, 30)
    beat_for(scene, beats, hours, 3, shift=3600)
    assert beats.steady_seconds() == 0
