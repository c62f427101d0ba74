"""Slow receivers never block quick ones: the worker reads on past what waits for one host, and hands the rest back."""

from __future__ import annotations

from itertools import zip_longest

import pytest
import redis
from sqlalchemy import Connection, Engine, text

from app.ids import uuid7
from app.signing import new_secret
from app.stream import Due, Ticket
from scheduler.marks import GRACE_SECONDS
from tests.delivery import hanging, keeping_alive, make_claim, receiver, running_deliverer
from tests.eventually import eventually
from tests.factories import Scene
from tests.processes import Processes
from worker.calls import MAX_PAUSE_SECONDS, MIN_PAUSE_SECONDS
from worker.hands import Hands
from worker.host_slots import STANDS_AFTER_SECONDS, HostSlots, Place
from worker.recorder import Recorder

INSERT = text("""
    INSERT INTO jobs (id, client_id, queue_id, type, payload, payload_bytes, callback_url, callback_host, status, run_at, scheduled_for,
                      max_attempts, timeout_seconds)
    SELECT id, :client, (SELECT id FROM queues WHERE client_id = :client), 'test', '{}', 2, :url, :url, 'pending', punctual_now(), punctual_now(), 5, 60
    FROM unnest(CAST(:ids AS uuid[])) AS u(id)
""")
STATUSES = text("SELECT status, count(*) FROM jobs WHERE callback_url = :url GROUP BY status")


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    made = Scene.on(engine, redis_client, db_conn)
    db_conn.execute(text("UPDATE clients SET signing_secret = :secret"), {"secret": new_secret()})
    return made


def due_jobs(scene: Scene, url: str, count: int) -> list[Due]:
    ids = [uuid7() for _ in range(count)]
    scene.conn.execute(INSERT, {"client": scene.client_id, "url": url, "ids": ids})
    return [Due(Ticket(str(job_id), 0, 0), scene.now()) for job_id in ids]


def statuses(scene: Scene, url: str) -> dict[str, int]:
    return {row.status: row.count for row in scene.conn.execute(STATUSES, {"url": url})}


@pytest.mark.parametrize("is_slow_first", [True, False])
def test_a_worker_finishes_the_quick_ones_while_the_slow_ones_wait(
    scene: Scene, processes: Processes, is_slow_first: bool
) -> None:
    """Scaled down from 500 and 2,000. All 128 places would be taken by what goes to the slow host, if waiting took one."""
    with receiver(hanging) as slow, receiver(keeping_alive) as quick:
        waiting, passing = due_jobs(scene, slow.url, 400), due_jobs(scene, quick.url, 300)
        mixed = [due for pair in zip_longest(waiting, passing) for due in pair if due is not None]
        scene.stream.add([*waiting, *passing] if is_slow_first else mixed, scene.now())
        worker = processes.worker()
        eventually(lambda: statuses(scene, quick.url) == {"done": 300}, timeout=30)
        assert len(slow.requests) == 64
        # 64 are sent and 256 wait for them to end: what is beyond was handed back, and comes again in a while.
        eventually(lambda: statuses(scene, slow.url).get("running") in range(320, 330))
        assert "done" not in statuses(scene, slow.url)
        assert scene.count("executions", "status <> 'succeeded'") == 0
        worker.ask_to_stop()


def test_what_is_beyond_four_times_the_limit_is_unsent_for_a_while() -> None:
    with receiver(hanging) as slow, receiver(keeping_alive) as quick, running_deliverer() as delivery:
        late, soon = (
            [make_claim(made.url, timeout_seconds=30.0) for _ in range(n)] for made, n in ((slow, 500), (quick, 200))
        )
        delivery.deliverer.submit([claim for pair in zip_longest(late, soon) for claim in pair if claim is not None])
        assert {answer.error_class for _, answer in delivery.wait(200)} == {None}
        assert {claim.callback_url for claim, _ in delivery.answers} == {quick.url}
        eventually(lambda: len(delivery.unsent) == 500 - 64 - 4 * 64)
        assert {claim.callback_url for claim, _ in delivery.unsent} == {slow.url}
        assert all(MIN_PAUSE_SECONDS <= pause <= MAX_PAUSE_SECONDS for _, pause in delivery.unsent)
        eventually(lambda: delivery.standing[-1:] == [256])
        assert (len(slow.requests), delivery.deliverer.in_flight) == (64, 320)
        # The longer it stands still, the longer what comes is left alone.
        delivery.deliverer.submit([make_claim(slow.url)])
        eventually(lambda: len(delivery.unsent) == 181)
        assert delivery.unsent[-1][1] > STANDS_AFTER_SECONDS


def test_who_waits_for_a_slow_host_stands_and_for_a_quick_one_does_not() -> None:
    slots: HostSlots[int] = HostSlots(1)
    assert [slots.offer("a", number, 10.0) for number in range(6)] == [Place.TAKEN, *[Place.WAITING] * 4, Place.REFUSED]
    assert (slots.standing(10.0), slots.wait_seconds("a", 12.5), slots.wait_seconds("b", 12.5)) == (0, 2.5, 0.0)
    assert slots.standing(10.0 + 2 * STANDS_AFTER_SECONDS) == 4
    assert slots.release("a") == 1
    assert slots.offer("a", 6, 10.2) is Place.WAITING
    assert slots.standing(10.0 + 2 * STANDS_AFTER_SECONDS) == 4
    assert [slots.release("a") for _ in range(3)] == [2, 3, 4]
    # The first in line has only just come.
    assert slots.standing(10.2) == 0
    assert slots.drain() == [6]
    assert (slots.standing(99.0), slots.is_anyone_waiting) == (0, False)


def test_what_stands_takes_no_place() -> None:
    hands = Hands(10)
    hands.take([make_claim("http://a.example/") for _ in range(12)], uuid7())
    assert hands.wait_for_places(1, 0) == -2
    hands.note_standing(5)
    assert hands.wait_for_places(1, 0) == 3
    hands.note_standing(0)
    assert hands.wait_for_places(1, 0) == -2


def test_a_pause_keeps_what_is_handed_back_out_of_the_stream(scene: Scene) -> None:
    """It is due all the while: only the set says when it is read again."""
    worker = scene.worker()
    at_once, later = scene.claim(scene.job(), scene.job(), worker=worker)
    hands = Hands(10)
    hands.take([at_once, later], worker)
    recorder = Recorder(stores=scene.stores, clock=scene.clock(), hands=hands)
    recorder.start()
    try:
        recorder.unsent([at_once])
        recorder.crowded_out([(later, 1.5)])
        eventually(lambda: len(hands) == 0 and recorder.is_idle)
    finally:
        recorder.close()
        recorder.join(5)
    assert (scene.status(later.job_id), scene.row(later.job_id)["attempts"]) == ("scheduled", 0)
    assert scene.row(later.job_id)["run_at"] == later.due_at
    assert scene.ready() == [f"{at_once.job_id}:0:0"]
    [(member, score)] = scene.scheduled().items()
    assert member == f"{later.job_id}:0:0"
    assert 0 < score / 1000 - scene.now().timestamp() <= 1.5


def test_the_pause_ends_before_marks_would_take_it_for_lost() -> None:
    assert MAX_PAUSE_SECONDS < GRACE_SECONDS
