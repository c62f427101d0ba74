"""Overlap policies through the life of a job: what is due while the last one has not finished."""

from __future__ import annotations

import pytest
import redis
from sqlalchemy import Connection, Engine, text

from app import cron_entries
from app.jobs import record
from scheduler.cron import Cron
from tests.factories import Scene, shifted, to_record
from tests.test_cron_firing_policies import BY, entry, finish, job_ids, occurrences, pass_at

pytestmark = pytest.mark.usefixtures("minute_begins")


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


@pytest.fixture
def cron(scene: Scene) -> Cron:
    return Cron(scene.stores)


def test_skip_waits_for_the_last_attempt_of_the_last_job(scene: Scene, cron: Cron) -> None:
    entry_id = scene.entry(overlap="skip")
    cron.run_once()
    (job_id,) = job_ids(scene)
    pass_at(scene, cron, 1)
    finish(scene, job_id, "scheduled")
    pass_at(scene, cron, 2)
    assert occurrences(scene, entry_id) == [("fired", None), ("skipped", "overlap"), ("skipped", "overlap")]
    scene.change(job_id, run_at=scene.now())
    finish(scene, job_id, "dead")
    pass_at(scene, cron, 3)
    assert occurrences(scene, entry_id)[-1] == ("fired", None)
    assert scene.count("jobs") == 2


def test_allow_does_not_look_at_the_last_job(scene: Scene, cron: Cron) -> None:
    entry_id = scene.entry(overlap="allow")
    for minutes in range(3):
        pass_at(scene, cron, minutes)
    assert occurrences(scene, entry_id) == [("fired", None)] * 3


class TestBufferOne:
    def test_what_waits_fires_when_the_last_job_ends(self, scene: Scene, cron: Cron) -> None:
        entry_id = scene.entry(overlap="buffer_one")
        cron.run_once()
        (first,) = job_ids(scene)
        pass_at(scene, cron, 1)
        assert occurrences(scene, entry_id) == [("fired", None), ("buffered", None)]
        assert scene.count("jobs") == 1
        finish(scene, first)
        cron.run_once()
        assert occurrences(scene, entry_id) == [("fired", None)] * 2
        _, second = scene.all("jobs")
        buffered = scene.all("cron_occurrences")[1]
        assert (buffered["job_id"], second["scheduled_for"]) == (second["id"], buffered["nominal_at"])
        assert second["status"] == "pending" and second["run_at"] <= scene.now()
        assert entry(scene, entry_id).last_job_id == second["id"]
        cron.run_once()
        assert scene.count("jobs") == 2 and len(scene.ready()) == 2

    def test_a_newer_one_takes_its_place(self, scene: Scene, cron: Cron) -> None:
        entry_id = scene.entry(overlap="buffer_one")
        for minutes in range(3):
            pass_at(scene, cron, minutes)
        assert occurrences(scene, entry_id) == [("fired", None), ("skipped", "overlap"), ("buffered", None)]
        assert scene.all("cron_occurrences")[1]["detail"].startswith("Replaced by the one of ")

    def test_what_waits_comes_before_what_is_due(self, scene: Scene, cron: Cron) -> None:
        entry_id = scene.entry(overlap="buffer_one")
        cron.run_once()
        pass_at(scene, cron, 1)
        finish(scene, job_ids(scene)[0])
        pass_at(scene, cron, 2)
        assert occurrences(scene, entry_id) == [("fired", None), ("fired", None), ("buffered", None)]

    def test_a_time_filled_in_meanwhile_takes_no_place(self, scene: Scene, cron: Cron) -> None:
        entry_id = scene.entry(overlap="buffer_one")
        cron.run_once()
        pass_at(scene, cron, 1)
        with shifted(scene.conn, 120):
            newest = scene.now().replace(second=0, microsecond=0)
            assert cron_entries.backfill(scene.stores, None, entry_id, newest, newest, BY) == 1
            cron.run_once()
        assert occurrences(scene, entry_id) == [("fired", None), ("buffered", None), ("fired", None)]

    def test_a_job_that_is_gone_keeps_nothing_waiting(self, scene: Scene, cron: Cron) -> None:
        entry_id = scene.entry(overlap="buffer_one")
        cron.run_once()
        pass_at(scene, cron, 1)
        scene.conn.execute(text("DELETE FROM jobs"))
        cron.run_once()
        assert occurrences(scene, entry_id)[-1] == ("fired", None)

    def test_a_pause_skips_what_waits(self, scene: Scene, cron: Cron, engine: Engine) -> None:
        entry_id = scene.entry(overlap="buffer_one")
        cron.run_once()
        pass_at(scene, cron, 1)
        cron_entries.pause(engine, None, entry_id, "noise", BY)
        finish(scene, job_ids(scene)[0])
        cron.run_once()
        assert occurrences(scene, entry_id) == [("fired", None), ("skipped", "paused")]
        assert scene.count("jobs") == 1

    def test_two_schedulers_fire_it_once(self, scene: Scene, cron: Cron) -> None:
        scene.entry(overlap="buffer_one")
        cron.run_once()
        pass_at(scene, cron, 1)
        finish(scene, job_ids(scene)[0])
        Cron(scene.stores).run_once()
        cron.run_once()
        assert scene.count("jobs") == 2


class TestCancelPrevious:
    def test_what_waits_is_cancelled(self, scene: Scene, cron: Cron) -> None:
        entry_id = scene.entry(overlap="cancel_previous")
        cron.run_once()
        pass_at(scene, cron, 1)
        first, second = scene.all("jobs")
        assert (first["status"], second["status"]) == ("cancelled", "pending")
        assert occurrences(scene, entry_id) == [("fired", None)] * 2

    def test_what_runs_is_marked_and_gets_no_retry(self, scene: Scene, cron: Cron) -> None:
        scene.entry(overlap="cancel_previous")
        cron.run_once()
        (first,) = job_ids(scene)
        worker = scene.worker()
        (claimed,) = scene.claim(first, worker=worker)
        pass_at(scene, cron, 1)
        assert scene.status(first) == "running" and scene.row(first)["cancel_requested_at"] is not None
        assert scene.count("jobs", "status = 'pending'") == 1
        record(scene.conn, [to_record(claimed, worker, "scheduled")])
        assert scene.status(first) == "cancelled"

    def test_a_time_that_had_fired_cancels_nothing(self, scene: Scene, cron: Cron) -> None:
        scene.entry(overlap="cancel_previous")
        cron.run_once()
        scene.conn.execute(text("UPDATE cron_entries SET next_run_at = next_run_at - interval '1 minute'"))
        cron.run_once()
        assert [job["status"] for job in scene.all("jobs")] == ["pending"]
