"""What worker and scheduler count: each end of an attempt under its own word, what was rescued, what was rebuilt."""

from __future__ import annotations

import threading

import pytest
import redis
from sqlalchemy import Connection, Engine

from app import jobs, processes
from app.jobs import ToRecord
from app.meters import attempts
from app.meters.attempts import count_recorded
from app.meters.scheduler import scheduler_registry
from scheduler.rebuilder import Rebuilder
from scheduler.rescuer import Rescuer
from tests.factories import Scene, lost, make_queue, queue_id, to_record

ENDS = [
    ("done", "succeeded", to_record),
    ("scheduled", "retried", to_record),
    ("dead", "dead", to_record),
    ("cancelled", "cancelled", to_record),
    ("scheduled", "lost", lost),
    ("dead", "dead", lost),
]


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


def counted(outcome: str, queue: str) -> float:
    labels = {"client": "tests", "queue": queue, "outcome": outcome}
    return attempts.registry.get_sample_value("attempts_total", labels) or 0.0


def timed(name: str) -> float:
    return attempts.registry.get_sample_value(f"{name}_count") or 0.0


@pytest.mark.parametrize(("status", "outcome", "end"), ENDS)
def test_each_end_has_its_word_and_a_lost_attempt_has_no_times(
    scene: Scene, status: str, outcome: str, end: type[ToRecord]
) -> None:
    claimed, worker = scene.running()
    before, times = counted(outcome, "default"), [timed("start_lag_seconds"), timed("callback_seconds")]
    recorded = jobs.record(scene.conn, [end(claimed, worker, status)])
    count_recorded(recorded)
    assert counted(outcome, "default") == before + 1
    more = 0 if end is lost else 1
    assert [timed("start_lag_seconds"), timed("callback_seconds")] == [time + more for time in times]


def test_what_was_recorded_before_is_not_counted_again(scene: Scene) -> None:
    claimed, worker = scene.running()
    jobs.record(scene.conn, [to_record(claimed, worker, "done")])
    before = counted("succeeded", "default")
    late = jobs.record(scene.conn, [to_record(claimed, worker, "done")])
    assert [item.outcome for item in late] == ["late"]
    count_recorded(late)
    assert counted("succeeded", "default") == before


def test_a_scheduler_counts_what_it_rescues_and_rebuilds(scene: Scene) -> None:
    make_queue(scene.conn, scene.client_id, "mail")
    _, worker = scene.running(queue_id=queue_id(scene.conn, scene.client_id, "mail"))
    registry = scheduler_registry(scene.stores.engine, lambda: True, lambda: {"cron": 0.0})
    names = ("attempts_rescued_total", "redis_rebuilds_total")
    before = [registry.get_sample_value(name) or 0.0 for name in names]
    processes.stop(scene.conn, worker)
    assert Rescuer(scene.stores, scene.clock(), lambda: 3600).rescue_lost() == 1
    assert Rebuilder(scene.stores, scene.clock(), threading.Event()).rebuild()
    assert [registry.get_sample_value(name) for name in names] == [count + 1 for count in before]
    assert counted("lost", "mail") == 1
    assert registry.get_sample_value("scheduler_leads") == 1
    assert (registry.get_sample_value("scheduler_loop_age_seconds", {"loop": "cron"}) or 0) > 0
