"""Marks (C16): what got lost is found, and a late promoter or a long backlog is left alone. Time passes by an injected clock."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import pytest
import redis
from sqlalchemy import Connection, Engine, text

from app import jobs
from app.clock import Clock
from app.redis_keys import GROUP
from app.stream import Due
from scheduler.marks import GRACE_SECONDS, PROMOTER_SECONDS, STEP_SECONDS, Marks
from tests.factories import Scene, as_json, shifted

READY = "ready:of-the-test"


class Passing(Clock):
    """A clock that stands still until the test lets time pass."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self.scene = scene
        self.seconds = 1000.0
        self._now = scene.now()

    def now(self) -> datetime:
        return self._now + timedelta(seconds=self.seconds - 1000.0)

    def boottime(self) -> float:
        return self.seconds


class Leader:
    """Marks on a Redis that is ready, driven step by step."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        scene.stream.create_group()
        scene.stream.client.set(scene.keys.epoch, READY)
        self.time = Passing(scene)
        self.marks = Marks(scene.stores, self.time, boottime=self.time.boottime)

    def pass_seconds(self, seconds: float) -> None:
        """Steps as the loop would, for so long."""
        until = self.time.seconds + seconds
        while self.time.seconds < until:
            self.time.seconds += self.marks.run_once()

    def settle(self) -> int:
        """A mark from its beginning to its walk, on a healthy system. Returns how many rows were added by it."""
        before = self.marks.rescued
        self.marks.reset()
        self.pass_seconds(2 * GRACE_SECONDS + 4 * STEP_SECONDS)
        return self.marks.rescued - before


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


@pytest.fixture
def leader(scene: Scene) -> Leader:
    return Leader(scene)


def enqueue(scene: Scene, *job_ids: UUID) -> None:
    scene.stream.add([Due(scene.ticket(job_id), scene.row(job_id)["run_at"]) for job_id in job_ids], scene.now())


def deliver(scene: Scene, count: int = 10_000) -> int:
    """A worker reads what there is and claims it."""
    read = scene.stream.read("w", count, 1)
    claimed = jobs.claim(scene.conn, scene.worker(), [entry.ticket for entry in read if entry.ticket])
    scene.stream.finish(read, claimed.put_back, scene.now())
    return len(claimed.claims)


# What is lost is found


@pytest.mark.parametrize("status", ["pending", "scheduled"])
def test_a_due_row_that_is_nowhere_is_added_again(scene: Scene, leader: Leader, status: str) -> None:
    job_id = scene.job(status, attempts=2 if status == "scheduled" else 0)
    before = as_json(scene.row(job_id))
    assert leader.settle() == 1
    assert scene.ready() == [scene.ticket(job_id).member]
    assert as_json(scene.row(job_id)) == before


def test_rows_are_walked_in_bounded_passes(scene: Scene, leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.marks.MOST", 2)
    run_at = scene.now() - timedelta(minutes=5)
    ids = [scene.job(run_at=run_at) for _ in range(5)]
    assert leader.settle() == 5
    assert sorted(scene.ready()) == sorted(f"{job_id}:0:0" for job_id in ids)


def test_an_entry_lost_between_read_and_claim_is_found(scene: Scene, leader: Leader) -> None:
    """Its worker died, and what was pending was dropped: the row is the truth."""
    job_id = scene.job()
    enqueue(scene, job_id)
    assert len(scene.stream.read("gone", 10, 1)) == 1
    assert scene.stream.drop_stale_pending("rescuer", 0) == 1
    assert scene.on_the_way() == []
    assert leader.settle() == 1
    assert deliver(scene) == 1


@pytest.mark.parametrize("key", ["ready", "scheduled"])
def test_one_key_that_was_deleted_loses_nothing(scene: Scene, leader: Leader, key: str) -> None:
    """The epoch is still there, so nobody rebuilds."""
    waiting, later = scene.job(), scene.job("scheduled", run_at=scene.now() + timedelta(seconds=5))
    enqueue(scene, waiting, later)
    scene.stream.client.delete(getattr(scene.keys, key))
    with shifted(scene.conn, 10):
        scene.stream.promote(scene.now())
        leader = Leader(scene)
        deliver(scene)
        assert leader.settle() == 1
        assert deliver(scene) == 1
        assert {scene.status(waiting), scene.status(later)} == {"running"}


def test_a_stream_deleted_while_a_mark_waits_for_it_holds_nothing_up(scene: Scene, leader: Leader) -> None:
    job_id = scene.job()
    enqueue(scene, job_id)
    leader.pass_seconds(GRACE_SECONDS + 2 * STEP_SECONDS)
    scene.stream.client.delete(scene.keys.ready)
    leader.pass_seconds(GRACE_SECONDS + 4 * STEP_SECONDS)
    assert scene.ready() == [scene.ticket(job_id).member]


def test_a_group_that_was_destroyed_is_made_again_and_holds_nothing_up(scene: Scene, leader: Leader) -> None:
    job_id = scene.job()
    enqueue(scene, scene.job("scheduled"))
    deliver(scene)
    scene.stream.client.xgroup_destroy(scene.keys.ready, GROUP)
    leader.pass_seconds(2 * GRACE_SECONDS + 5 * STEP_SECONDS)
    assert scene.ready() == [scene.ticket(job_id).member]


def test_a_row_without_attempts_left_is_buried(scene: Scene, leader: Leader) -> None:
    exhausted = scene.job("scheduled", attempts=5, last_error="as it was", last_error_class="timeout")
    silent = scene.job("pending", attempts=5)
    good = scene.job()
    assert leader.settle() == 1
    assert scene.ready() == [scene.ticket(good).member]
    assert (scene.status(exhausted), scene.row(exhausted)["last_error"]) == ("dead", "as it was")
    assert (scene.status(silent), scene.row(silent)["last_error_class"]) == ("dead", "lost")
    assert scene.row(silent)["finished_at"] is not None


def test_a_locked_row_without_attempts_left_stops_no_other(scene: Scene, leader: Leader) -> None:
    locked, free = scene.job("scheduled", attempts=5), scene.job("scheduled", attempts=5)
    with scene.stores.engine.begin() as holder:
        holder.execute(text("SELECT FROM jobs WHERE id = :id FOR UPDATE"), {"id": locked})
        leader.settle()
        assert scene.status(free) == "dead"
    assert scene.status(locked) == "scheduled"
    leader.settle()
    assert scene.status(locked) == "dead"


# What is on its way is left alone


def test_a_healthy_row_is_never_added_again(scene: Scene, leader: Leader) -> None:
    job_id = scene.job()
    enqueue(scene, job_id)
    leader.pass_seconds(1)
    assert deliver(scene) == 1
    leader.pass_seconds(60)
    assert (leader.marks.rescued, scene.on_the_way()) == (0, [])


def test_a_long_backlog_is_left_alone(scene: Scene, leader: Leader) -> None:
    """Rows due for a quarter of an hour lie in the stream, and workers come to them slowly, while others come in."""
    long_ago = scene.now() - timedelta(minutes=15)
    enqueue(scene, *(scene.job(run_at=long_ago, updated_at=long_ago) for _ in range(30)))
    for _ in range(30):
        leader.pass_seconds(20)
        fresh = scene.job(run_at=leader.time.now(), updated_at=leader.time.now())
        scene.stream.add([Due(scene.ticket(fresh), leader.time.now())], leader.time.now())
        assert deliver(scene, count=1) == 1
    assert leader.marks.rescued == 0
    assert len(scene.ready()) == 30


def test_a_late_promoter_is_waited_for(scene: Scene, leader: Leader) -> None:
    late = scene.job("scheduled", run_at=scene.now() + timedelta(milliseconds=200))
    enqueue(scene, late)
    lost = scene.job()
    with shifted(scene.conn, 1):
        leader.time._now = scene.now()
        leader.pass_seconds(PROMOTER_SECONDS - 2 * STEP_SECONDS)
        assert leader.marks.rescued == 0
        assert scene.stream.promote(scene.now()).moved == 1
        assert deliver(scene) == 1
        leader.pass_seconds(2 * GRACE_SECONDS + 2 * STEP_SECONDS)
    assert scene.ready() == [scene.ticket(lost).member]


def test_a_promoter_that_never_comes_is_not_waited_for_for_ever(scene: Scene, leader: Leader) -> None:
    scene.stream.client.zadd(scene.keys.scheduled, {"stuck": 1})
    lost = scene.job()
    leader.pass_seconds(PROMOTER_SECONDS + GRACE_SECONDS + 3 * STEP_SECONDS)
    assert scene.ready() == [scene.ticket(lost).member]


def test_what_changed_after_the_mark_is_not_its_business(scene: Scene, leader: Leader) -> None:
    """A row due long ago that was handed back a moment ago is still on its way to Redis; so is one that fell due just now."""
    leader.pass_seconds(STEP_SECONDS)
    after = leader.time.now()
    scene.job(updated_at=after)
    scene.job("scheduled", run_at=after)
    leader.pass_seconds(2 * GRACE_SECONDS + 2 * STEP_SECONDS)
    assert leader.marks.rescued == 0
    leader.pass_seconds(2 * GRACE_SECONDS + 4 * STEP_SECONDS)
    assert leader.marks.rescued == 2


def test_what_was_put_back_a_moment_ago_is_left_alone(scene: Scene, leader: Leader) -> None:
    """A row that was locked when it was claimed goes back with a later score than its time."""
    job_id = scene.job()
    enqueue(scene, job_id)
    read = scene.stream.read("w", 10, 1)
    scene.stream.finish(read, [scene.due(job_id)], scene.now() + timedelta(seconds=20))
    assert leader.settle() == 0
    assert scene.on_the_way() == [scene.ticket(job_id).member]


@pytest.mark.parametrize("status", ["running", "done", "dead", "cancelled"])
def test_what_does_not_wait_is_not_looked_at(scene: Scene, leader: Leader, status: str) -> None:
    job_id = scene.job(status)
    before = as_json(scene.row(job_id))
    assert leader.settle() == 0
    assert as_json(scene.row(job_id)) == before


# Beginning anew


def test_a_mark_does_not_outlive_its_epoch(scene: Scene, leader: Leader) -> None:
    scene.job()
    leader.pass_seconds(2 * GRACE_SECONDS)
    scene.stream.client.set(scene.keys.epoch, "ready:another")
    leader.pass_seconds(2 * GRACE_SECONDS)
    assert leader.marks.rescued == 0
    leader.pass_seconds(4 * STEP_SECONDS)
    assert leader.marks.rescued == 1


@pytest.mark.parametrize("epoch", [None, "rebuilding:x"])
def test_while_redis_is_rebuilt_nothing_is_marked(scene: Scene, leader: Leader, epoch: str | None) -> None:
    scene.job()
    leader.pass_seconds(GRACE_SECONDS)
    if epoch is None:
        scene.stream.client.delete(scene.keys.epoch)
    else:
        scene.stream.client.set(scene.keys.epoch, epoch)
    leader.pass_seconds(60)
    assert leader.marks.rescued == 0
    scene.stream.client.set(scene.keys.epoch, READY)
    leader.pass_seconds(2 * GRACE_SECONDS)
    assert leader.marks.rescued == 0
    leader.pass_seconds(4 * STEP_SECONDS)
    assert leader.marks.rescued == 1


def test_a_new_lead_begins_a_new_mark(scene: Scene, leader: Leader) -> None:
    scene.job()
    leader.pass_seconds(2 * GRACE_SECONDS)
    leader.marks.reset()
    leader.pass_seconds(2 * GRACE_SECONDS)
    assert leader.marks.rescued == 0


def test_marks_follow_one_another(scene: Scene, leader: Leader) -> None:
    leader.pass_seconds(30)
    scene.job()
    leader.pass_seconds(2 * (2 * GRACE_SECONDS + 4 * STEP_SECONDS))
    assert leader.marks.rescued >= 1
