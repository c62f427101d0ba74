"""Queues with limits, turns and priorities: real workers and a real leader, judged by what the receiver saw."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import redis
from sqlalchemy import Connection, Engine, text

from app import jobs
from app.demo_receiver import DemoReceiver
from app.demo_record import Arrival
from app.signing import new_secret
from app.stream.stream import MOST_READY
from tests.eventually import eventually
from tests.factories import Scene, make_client, make_queue
from tests.processes import Processes


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    scene = Scene.on(engine, redis_client, db_conn)
    scene.conn.execute(text("UPDATE clients SET signing_secret = :secret"), {"secret": new_secret()})
    return scene


def submit(scene: Scene, receiver: DemoReceiver, count: int = 1, path: str = "/hook", **changes: Any) -> list[UUID]:
    """Jobs for the receiver, through the same function as the API."""
    asked = {"callback_url": f"{receiver.url}{path}", "callback_host": receiver.url, **changes}
    return [jobs.submit(scene.stores, scene.request(**asked)).job_id for _ in range(count)]


def all_done(scene: Scene, count: int, timeout: float = 30) -> None:
    eventually(lambda: scene.count("jobs", "status = 'done'") == count, timeout=timeout)


def arrivals(receiver: DemoReceiver) -> list[Arrival]:
    return sorted(receiver.record.newest_first(), key=lambda arrival: arrival.arrived_at)


def most_at_once(seen: list[Arrival]) -> int:
    """The most calls that were under way at one moment."""
    changes = [(arrival.arrived_at, 1) for arrival in seen]
    changes += [(arrival.arrived_at + timedelta(seconds=arrival.seconds), -1) for arrival in seen]
    under_way = most = 0
    for _, change in sorted(changes):
        under_way += change
        most = max(most, under_way)
    return most


def most_within(seen: list[Arrival], span: timedelta) -> int:
    """The most calls that arrived within one span."""
    times = [arrival.arrived_at for arrival in seen]
    return max(sum(1 for other in times if at <= other < at + span) for at in times)


def test_no_more_calls_than_the_queue_allows_are_under_way(
    scene: Scene, processes: Processes, receiver: DemoReceiver
) -> None:
    make_queue(scene.conn, scene.client_id, "narrow", concurrency=3)
    processes.scheduler()
    for _ in range(4):
        processes.worker()
    submit(scene, receiver, 40, "/hook-slow?seconds=0.05", queue="narrow")
    all_done(scene, 40)
    assert most_at_once(arrivals(receiver)) <= 3
    assert scene.count("jobs", "attempts <> 1") == 0


def test_no_more_calls_than_the_rate_allows_begin(scene: Scene, processes: Processes, receiver: DemoReceiver) -> None:
    make_queue(scene.conn, scene.client_id, "slow", rate_limit=10, rate_period_seconds=1.0)
    processes.scheduler()
    for _ in range(4):
        processes.worker()
    submit(scene, receiver, 35, queue="slow")
    all_done(scene, 35)
    seen = arrivals(receiver)
    assert most_within(seen, timedelta(seconds=1)) <= 10
    # Three periods and a little: the rate is used, not only kept.
    assert seen[-1].arrived_at - seen[0].arrived_at < timedelta(seconds=6)


def test_limits_hold_over_a_kill_and_a_flush(scene: Scene, processes: Processes, receiver: DemoReceiver) -> None:
    make_queue(scene.conn, scene.client_id, "narrow", concurrency=4)
    processes.scheduler()
    workers = [processes.worker() for _ in range(4)]
    submit(scene, receiver, 200, "/hook-slow?seconds=0.05", queue="narrow")
    eventually(lambda: scene.count("jobs", "status = 'done'") >= 20)
    os.kill(workers[0].pid, signal.SIGKILL)
    eventually(lambda: scene.count("jobs", "status = 'done'") >= 60)
    scene.stream.client.flushall()
    all_done(scene, 200, timeout=60)
    assert most_at_once(arrivals(receiver)) <= 4
    assert scene.count("executions", "status NOT IN ('succeeded', 'lost')") == 0
    eventually(lambda: scene.stream.client.zcard(scene.keys.slots(token(scene, "narrow"))) == 0, timeout=20)


def token(scene: Scene, name: str) -> str:
    query = text("SELECT client_id || ':' || id FROM queues WHERE name = :name")
    return str(scene.conn.execute(query, {"name": name}).scalar_one())


def test_what_waits_in_a_paused_queue_goes_when_it_is_resumed(
    scene: Scene, processes: Processes, receiver: DemoReceiver
) -> None:
    make_queue(scene.conn, scene.client_id, "closed", paused_at=scene.now())
    processes.scheduler()
    processes.worker()
    held = submit(scene, receiver, 5, queue="closed")
    free = submit(scene, receiver, 5)
    all_done(scene, 5)
    assert {scene.status(job_id) for job_id in free} == {"done"}
    assert {(scene.status(job_id), scene.row(job_id)["attempts"]) for job_id in held} == {("pending", 0)}
    scene.conn.execute(text("UPDATE queues SET paused_at = NULL"))
    all_done(scene, 10, timeout=5)
    assert scene.count("jobs", "attempts <> 1") == 0


@pytest.mark.parametrize(
    "limits", [{"concurrency": 1}, {"rate_limit": 100, "rate_period_seconds": 1.0}], ids=["concurrency", "rate"]
)
def test_what_was_cancelled_holds_up_nothing_behind_it(
    scene: Scene, processes: Processes, receiver: DemoReceiver, limits: dict[str, Any]
) -> None:
    """Its entry waits in Redis still: a place that it was let in for is free again at once, not after a second each."""
    make_queue(scene.conn, scene.client_id, "narrow", paused_at=scene.now(), **limits)
    processes.scheduler()
    processes.worker()
    eventually(lambda: scene.stream.client.hexists(scene.keys.limits, token(scene, "narrow")))
    *cancelled, last = submit(scene, receiver, 16, queue="narrow")
    eventually(lambda: scene.stream.client.zcard(scene.keys.waiting(token(scene, "narrow"))) == 16)
    for job_id in cancelled:
        jobs.cancel(scene.stores, None, job_id)
    scene.conn.execute(text("UPDATE queues SET paused_at = NULL"))
    eventually(lambda: scene.status(last) == "done", timeout=5)


def test_the_urgent_go_first(scene: Scene, processes: Processes, receiver: DemoReceiver) -> None:
    make_queue(scene.conn, scene.client_id, "one", concurrency=1, paused_at=scene.now())
    processes.scheduler()
    eventually(lambda: scene.stream.client.hexists(scene.keys.limits, token(scene, "one")))
    for priority in (5, 0, 9, 5, 7):
        submit(scene, receiver, 1, f"/hook?{priority}", queue="one", priority=priority)
    scene.conn.execute(text("UPDATE queues SET paused_at = NULL"))
    processes.worker()
    all_done(scene, 5)
    assert [arrival.path for arrival in arrivals(receiver)] == [f"/hook?{n}" for n in (9, 7, 5, 5, 0)]


def test_one_clients_flood_holds_up_no_other(scene: Scene, processes: Processes, receiver: DemoReceiver) -> None:
    """Not measured by time: few of the flood's jobs go between the other's submission and its call."""
    other = make_client(scene.conn, "other")
    scene.conn.execute(text("UPDATE clients SET signing_secret = :secret"), {"secret": new_secret()})
    processes.scheduler()
    eventually(lambda: scene.stream.epoch().startswith("ready:"))
    flood = 3000
    scene.conn.execute(
        text(
            "INSERT INTO jobs (id, client_id, queue_id, type, payload, payload_bytes, callback_url, callback_host, status, run_at,"
            " scheduled_for, max_attempts, created_at, updated_at) SELECT gen_random_uuid(), :client, q.id, 'flood', '1', 1, :url, :host,"
            " 'pending', punctual_now(), punctual_now(), 5, punctual_now(), punctual_now()"
            " FROM queues q, generate_series(1, :flood) WHERE q.client_id = :client"
        ),
        {"client": scene.client_id, "url": f"{receiver.url}/hook", "host": receiver.url, "flood": flood},
    )
    scene.stream.client.delete(scene.keys.epoch)
    eventually(lambda: scene.stream.depth()[0] >= MOST_READY)
    processes.worker()
    eventually(lambda: len(receiver.record.newest_first()) > 100)
    [mine] = submit(scene, receiver, 1, "/hook?mine", client_id=other)
    eventually(lambda: scene.status(mine) == "done", timeout=30)
    seen = arrivals(receiver)
    after = [arrival for arrival in seen if arrival.arrived_at > scene.row(mine)["created_at"]]
    ahead = next(place for place, arrival in enumerate(after) if arrival.path == "/hook?mine")
    assert ahead <= MOST_READY + 128 + 64
