"""Refilling Redis (C14), and bringing in what enters the horizon (C13)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import redis
from sqlalchemy import Connection, Engine

from app import jobs
from app.redis_keys import GROUP
from app.stream import HORIZON, to_score
from scheduler.loader import Loader
from scheduler.promoter import Promoter
from scheduler.rebuilder import Rebuilder
from tests.factories import Scene, as_json


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


@pytest.fixture
def epoch_lost() -> threading.Event:
    return threading.Event()


@pytest.fixture
def rebuilder(scene: Scene, epoch_lost: threading.Event) -> Rebuilder:
    return Rebuilder(scene.stores, scene.clock(), epoch_lost)


def in_the_middle(scene: Scene, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """`act` comes once, when the rebuild has just added its rows."""
    add = scene.stream.add
    done: list[object] = []

    def add_then_act(*arguments: Any) -> int:
        added = add(*arguments)
        if not done:
            done.append(act())
        return added

    monkeypatch.setattr(scene.stream, "add", add_then_act)


def test_every_due_row_and_all_within_the_horizon_are_added(scene: Scene, rebuilder: Rebuilder) -> None:
    now = scene.now()
    pending, retry = scene.job(), scene.job("scheduled", attempts=2, queue_generation=1)
    soon = scene.job("scheduled", run_at=now + timedelta(seconds=9))
    scene.job("scheduled", run_at=now + HORIZON + timedelta(seconds=5))
    for status in ("running", "done", "dead", "cancelled"):
        scene.job(status)
    before = [as_json(row) for row in scene.all("jobs")]
    assert rebuilder.rebuild()
    assert sorted(scene.ready()) == sorted([f"{pending}:0:0", f"{retry}:1:2"])
    assert scene.scheduled() == {f"{soon}:0:0": to_score(scene.row(soon)["run_at"])}
    assert scene.stream.epoch().startswith("ready:")
    assert scene.stream.client.xinfo_groups(scene.keys.ready)[0]["name"] == GROUP.encode()
    assert [as_json(row) for row in scene.all("jobs")] == before


def test_rows_of_one_instant_are_walked_to_the_end(
    scene: Scene, rebuilder: Rebuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.rebuilder.MOST", 3)
    run_at = scene.now()
    ids = {scene.job(run_at=run_at) for _ in range(7)}
    assert rebuilder.rebuild()
    assert {entry.split(":")[0] for entry in scene.ready()} == {str(job_id) for job_id in ids}
    assert len(scene.ready()) == 7


def test_a_flush_in_mid_rebuild_begins_it_anew(
    scene: Scene, rebuilder: Rebuilder, epoch_lost: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = scene.job()
    in_the_middle(scene, monkeypatch, scene.stream.client.flushdb)
    epoch_lost.set()
    rebuilder.run_once()
    assert (scene.stream.epoch(), scene.ready()) == ("", [])
    assert epoch_lost.is_set()
    rebuilder.run_once()
    assert scene.stream.epoch().startswith("ready:")
    assert scene.ready() == [f"{job_id}:0:0"]


def test_another_leaders_rebuild_in_between_is_noticed(
    scene: Scene, rebuilder: Rebuilder, epoch_lost: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_middle(scene, monkeypatch, lambda: scene.stream.begin_rebuild("another"))
    assert not rebuilder.rebuild()
    assert epoch_lost.is_set()
    assert scene.stream.epoch() == "rebuilding:another"


@pytest.mark.parametrize("left", ["rebuilding:of-a-leader-that-is-gone", "nonsense", None])
def test_any_epoch_that_is_not_ready_is_rebuilt(
    scene: Scene, rebuilder: Rebuilder, epoch_lost: threading.Event, left: str | None
) -> None:
    job_id = scene.job()
    if left is not None:
        scene.stream.client.set(scene.keys.epoch, left)
    epoch_lost.set()
    rebuilder.run_once()
    assert scene.stream.epoch().startswith("ready:")
    assert scene.ready() == [f"{job_id}:0:0"]


def test_a_ready_epoch_is_left_alone(scene: Scene, rebuilder: Rebuilder, epoch_lost: threading.Event) -> None:
    scene.job()
    scene.stream.client.set(scene.keys.epoch, "ready:x")
    epoch_lost.set()
    rebuilder.run_once()
    assert (scene.stream.epoch(), scene.on_the_way()) == ("ready:x", [])


def test_rebuilding_twice_does_no_harm(scene: Scene, rebuilder: Rebuilder) -> None:
    scene.job()
    assert rebuilder.rebuild() and rebuilder.rebuild()
    read = scene.stream.read("w", 10, 1)
    worker = scene.worker()
    claimed = jobs.claim(scene.conn, worker, [entry.ticket for entry in read if entry.ticket])
    assert (len(read), len(claimed.claims), claimed.put_back) == (2, 1, [])


# The promoter, and what it sees


def test_the_promoter_sees_that_redis_lost_its_data(scene: Scene, epoch_lost: threading.Event) -> None:
    promoter = Promoter(scene.stores, scene.clock(), epoch_lost)
    scene.stream.client.set(scene.keys.epoch, "ready:x")
    promoter.run_once()
    assert not epoch_lost.is_set()
    scene.stream.client.flushdb()
    promoter.run_once()
    assert epoch_lost.is_set()


def test_the_promoter_sleeps_at_most_20_ms(scene: Scene, epoch_lost: threading.Event) -> None:
    """C3: a job may be added in front of the one it waits for."""
    promoter = Promoter(scene.stores, scene.clock(), epoch_lost)
    assert promoter.run_once() <= 0.02
    scene.stream.client.zadd(scene.keys.scheduled, {"x": to_score(scene.now() + timedelta(seconds=20))})
    assert promoter.run_once() <= 0.02
    scene.stream.client.zadd(scene.keys.scheduled, {"y": to_score(scene.now() + timedelta(milliseconds=5))})
    assert 0 <= promoter.run_once() < 0.02


def test_the_promoter_moves_nothing_before_its_time(scene: Scene, epoch_lost: threading.Event) -> None:
    promoter = Promoter(scene.stores, scene.clock(), epoch_lost)
    due, later = scene.job(), scene.job("scheduled", run_at=scene.now() + timedelta(seconds=5))
    scene.stream.client.zadd(
        scene.keys.scheduled, {f"{due}:0:0": 1, f"{later}:0:0": to_score(scene.row(later)["run_at"])}
    )
    promoter.run_once()
    assert (scene.ready(), list(scene.scheduled())) == ([f"{due}:0:0"], [f"{later}:0:0"])


def test_a_promoter_without_memory_goes_on_later(scene: Scene, epoch_lost: threading.Event) -> None:
    promoter = Promoter(scene.stores, scene.clock(), epoch_lost)
    due = scene.job()
    scene.stream.client.zadd(scene.keys.scheduled, {f"{due}:0:0": 1})
    scene.stream.client.config_set("maxmemory", "1")
    try:
        assert promoter.run_once() > 0
    finally:
        scene.stream.client.config_set("maxmemory", "0")
    assert list(scene.scheduled()) == [f"{due}:0:0"]
    promoter.run_once()
    assert scene.ready() == [f"{due}:0:0"]


# The loader (C13)


def test_the_loader_brings_in_what_enters_the_horizon(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.loader.MOST", 2)
    now = scene.now()
    inside = {scene.job("scheduled", run_at=now + timedelta(seconds=20)) for _ in range(5)}
    scene.job("scheduled", run_at=now + HORIZON + timedelta(seconds=5))
    due = scene.job()
    loader = Loader(scene.stores, scene.clock())
    assert 0 < loader.run_once() <= 5
    assert set(scene.scheduled()) == {f"{job_id}:0:0" for job_id in inside}
    # Due rows are the submitters' and the rescuer's: adding them here would double the whole backlog every 5 s.
    assert (scene.ready(), scene.status(due)) == ([], "pending")
    loader.run_once()
    assert len(scene.scheduled()) == 5
