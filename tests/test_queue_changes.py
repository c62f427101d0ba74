"""Limits that are changed, and queues that are paused and purged, while work flows: judged by what the receiver saw."""

from __future__ import annotations

import os
import signal
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
from sqlalchemy import Connection, Engine, text

from app.demo_receiver import DemoReceiver
from app.demo_record import Arrival
from app.jobs.bulk import By
from app.queues import changes
from app.signing import new_secret
from tests.eventually import eventually
from tests.factories import Scene, make_client, make_queue
from tests.processes import Processes
from tests.test_queue_limits import all_done, arrivals, most_at_once, submit

BY = By("command", "tests")
SECOND = timedelta(seconds=1)


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    scene = Scene.on(engine, redis_client, db_conn)
    scene.conn.execute(text("UPDATE clients SET signing_secret = :secret"), {"secret": new_secret()})
    return scene


def patch(scene: Scene, name: str, **settings: Any) -> datetime:
    """Changes a queue as the API does. Returns when that was done."""
    wanted: Any = settings
    changes.patch(scene.stores, scene.client_id, name, wanted, BY)
    return datetime.now(UTC)


def until(moment: datetime) -> None:
    eventually(lambda: datetime.now(UTC) >= moment, timeout=10)


def begun(receiver: DemoReceiver, first: datetime, last: datetime) -> list[Arrival]:
    """The calls that began from one moment to another."""
    return [arrival for arrival in arrivals(receiver) if first <= arrival.arrived_at < last]


def test_changes_act_within_a_second(scene: Scene, processes: Processes, receiver: DemoReceiver) -> None:
    make_queue(scene.conn, scene.client_id, "narrow", concurrency=8)
    processes.scheduler()
    for _ in range(4):
        processes.worker()
    submit(scene, receiver, 600, "/hook-slow?seconds=0.05", queue="narrow")
    eventually(lambda: scene.count("jobs", "status = 'done'") >= 20)
    lowered = patch(scene, "narrow", concurrency=2)
    until(lowered + 2 * SECOND)
    raised = patch(scene, "narrow", concurrency=12)
    until(raised + 2 * SECOND)
    paused = patch(scene, "narrow", paused=True)
    until(paused + 2 * SECOND)
    resumed = patch(scene, "narrow", paused=False, concurrency=None)
    eventually(lambda: begun(receiver, resumed, resumed + SECOND), timeout=2)
    all_done(scene, 600, timeout=60)
    assert most_at_once(arrivals(receiver)) > 2
    assert 0 < most_at_once(begun(receiver, lowered + SECOND, raised)) <= 2
    assert 2 < most_at_once(begun(receiver, raised + SECOND, paused)) <= 12
    assert begun(receiver, paused + SECOND, resumed) == []
    assert scene.count("jobs", "attempts <> 1") == 0


def test_a_purge_under_load_ends_what_waits_and_nothing_else(
    scene: Scene, processes: Processes, receiver: DemoReceiver
) -> None:
    make_queue(scene.conn, scene.client_id, "narrow", concurrency=4)
    processes.scheduler()
    for _ in range(4):
        processes.worker()
    submit(scene, receiver, 400, "/hook-slow?seconds=0.05", queue="narrow")
    submit(scene, receiver, 20, "/hook-slow?seconds=0.05", queue="narrow", delay_seconds=600)
    eventually(lambda: scene.count("jobs", "status = 'done'") >= 20)
    others = submit(scene, receiver, 10)
    cancelled = changes.purge(scene.stores, scene.client_id, "narrow", BY)
    assert cancelled > 20
    eventually(lambda: scene.count("jobs", "status IN ('done', 'cancelled')") == 430)
    assert scene.count("jobs", "status = 'cancelled' AND attempts = 0") == cancelled
    called = {arrival.job_id for arrival in arrivals(receiver)}
    assert len(called) == len(arrivals(receiver)) == 430 - cancelled
    assert {str(job_id) for job_id in others} <= called
    # The queue goes on.
    [later] = submit(scene, receiver, 1, queue="narrow")
    eventually(lambda: scene.status(later) == "done", timeout=5)


def test_each_limit_is_its_queues_own_over_a_kill_and_a_flush(
    scene: Scene, processes: Processes, receiver: DemoReceiver
) -> None:
    """Two clients' queues of one name, and one without limits beside them."""
    other = make_client(scene.conn, "other")
    scene.conn.execute(text("UPDATE clients SET signing_secret = :secret"), {"secret": new_secret()})
    make_queue(scene.conn, scene.client_id, "narrow", concurrency=2)
    make_queue(scene.conn, other, "narrow", concurrency=3)
    processes.scheduler()
    workers = [processes.worker() for _ in range(4)]
    for _ in range(100):
        submit(scene, receiver, 1, "/hook-slow?seconds=0.05&ours", queue="narrow")
        submit(scene, receiver, 1, "/hook-slow?seconds=0.05&theirs", queue="narrow", client_id=other)
    eventually(lambda: scene.count("jobs", "status = 'done'") >= 30)
    os.kill(workers[0].pid, signal.SIGKILL)
    scene.stream.client.flushall()
    free = submit(scene, receiver, 50, "/hook-slow?seconds=0.05&free")
    eventually(lambda: all(scene.status(job_id) == "done" for job_id in free), timeout=30)
    all_done(scene, 250, timeout=60)
    seen = arrivals(receiver)
    for word, most in (("ours", 2), ("theirs", 3)):
        assert most_at_once([arrival for arrival in seen if arrival.path.endswith(word)]) <= most
