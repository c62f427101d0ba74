"""The consumer (C4, C15, C17): what it reads, claims and hands over, and how it outlives a Redis that lost things."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from uuid import UUID

import pytest
import redis
from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.exc import OperationalError

from app import processes
from app.attempts import Claim
from app.clock import boottime
from app.ids import uuid7
from app.stream import Due
from tests.eventually import eventually
from tests.factories import Scene
from worker.consumer import Consumer
from worker.hands import Hands
from worker.identity import Identity


@dataclass
class Desk:
    """A consumer with all it touches; its thread runs only where a test starts it."""

    scene: Scene
    places: int = 100
    delivered: list[Claim] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.identity, self.hands = Identity(), Hands(self.places)
        processes.register(self.scene.conn, self.identity.id, "worker")
        self.identity.beaten(boottime())
        self.scene.stream.create_group()
        self.consumer = self.make()

    def make(self) -> Consumer:
        return Consumer(
            stores=self.scene.stores,
            clock=self.scene.clock(),
            identity=self.identity,
            hands=self.hands,
            deliver=self.deliver,
            stopping=self.stopping,
        )

    def deliver(self, claims: Sequence[Claim]) -> None:
        self.delivered.extend(claims)

    @property
    def job_ids(self) -> list[UUID]:
        return [claim.job_id for claim in self.delivered]

    def enqueue(self, *job_ids: UUID) -> None:
        self.scene.stream.add(
            [Due(self.scene.ticket(job_id), self.scene.now()) for job_id in job_ids], self.scene.now()
        )

    def step(self, times: int = 1) -> int:
        """Steps; the first only looks back at what is pending."""
        return sum(self.consumer.step() for _ in range(times))


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


@pytest.fixture
def desk(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr("worker.consumer.BLOCK_MS", 10)
    monkeypatch.setattr("worker.consumer.PAUSE_AFTER_ERROR_SECONDS", 0.01)
    desk = Desk(scene)
    yield desk
    desk.stopping.set()
    if desk.consumer.is_alive():
        desk.consumer.join()


def test_a_batch_is_claimed_handed_over_and_acknowledged(scene: Scene, desk: Desk) -> None:
    ids = [scene.job() for _ in range(3)]
    desk.enqueue(*ids)
    assert desk.step(2) == 3
    assert sorted(desk.job_ids) == sorted(ids)
    assert {desk.hands.worker_of(claim) for claim in desk.delivered} == {desk.identity.id}
    assert scene.on_the_way() == []


def test_it_reads_no_more_than_there_are_places(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.consumer.BLOCK_MS", 10)
    desk = Desk(scene, places=4)
    desk.enqueue(*(scene.job() for _ in range(6)))
    desk.step(4)
    assert (len(desk.delivered), len(scene.ready())) == (4, 2)
    desk.hands.release(desk.delivered[:1])
    desk.step()
    assert (len(desk.delivered), len(scene.ready())) == (5, 1)


def test_it_reads_nothing_while_its_beats_do_not_go_through(scene: Scene, desk: Desk) -> None:
    desk.enqueue(scene.job())
    desk.identity.beaten(boottime() - 8.1)
    assert desk.step(3) == 0
    assert len(scene.ready()) == 1
    desk.identity.beaten(boottime())
    assert desk.step(2) == 1


def test_what_has_no_room_in_a_batchs_bytes_is_claimed_next(
    scene: Scene, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not put back: at 50 ms each, a backlog of large payloads would wander between stream and set."""
    monkeypatch.setattr(import_module("app.jobs.claim"), "MAX_BATCH_BYTES", 100)
    ids = [scene.job(payload_bytes=60) for _ in range(5)]
    desk.enqueue(*ids)
    desk.step(2)
    assert sorted(desk.job_ids) == sorted(ids)
    assert scene.on_the_way() == []


def test_what_is_locked_goes_back_into_the_set(scene: Scene, desk: Desk) -> None:
    locked, free = scene.job(), scene.job()
    desk.enqueue(locked, free)
    with scene.stores.engine.begin() as holder:
        holder.execute(text("SELECT FROM jobs WHERE id = :id FOR UPDATE"), {"id": locked})
        desk.step(2)
    assert desk.job_ids == [free]
    assert list(scene.scheduled()) == [f"{locked}:0:0"]
    assert min(scene.scheduled().values()) >= scene.now().timestamp() * 1000 - 5000
    assert scene.ready() == []


def test_a_bad_entry_is_noted_and_stops_no_other(scene: Scene, desk: Desk) -> None:
    scene.stream.client.xadd(scene.keys.ready, {"j": "bad", "g": 0, "a": 0})
    job_id = scene.job()
    desk.enqueue(job_id)
    desk.step(2)
    assert desk.job_ids == [job_id]
    assert (scene.ready(), scene.stream.client.llen(scene.keys.bad)) == ([], 1)


def test_entries_delivered_and_never_seen_come_first(scene: Scene, desk: Desk) -> None:
    """The answer to a read was lost: the entries are pending under this name."""
    unseen, fresh = scene.job(), scene.job()
    desk.enqueue(unseen)
    scene.stream.read(str(desk.identity.id), 10, 10)
    desk.enqueue(fresh)
    desk.step()
    assert desk.job_ids == [unseen]
    desk.step(2)
    assert desk.job_ids == [unseen, fresh]


def test_a_claim_whose_answer_was_lost_is_taken_up(scene: Scene, desk: Desk) -> None:
    """C7: the connection is lost after the claim was committed."""
    job_id = scene.job()
    desk.enqueue(job_id)
    lost: list[str] = []

    def lose_the_answer(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        if "SET status = 'running'" in statement and not lost:
            lost.append(statement)
            raise OperationalError(statement, {}, Exception("the connection is lost"), connection_invalidated=True)

    event.listen(scene.stores.engine, "after_cursor_execute", lose_the_answer)
    try:
        desk.consumer.start()
        eventually(lambda: desk.job_ids == [job_id])
    finally:
        event.remove(scene.stores.engine, "after_cursor_execute", lose_the_answer)
    eventually(lambda: scene.on_the_way() == [])
    assert lost and scene.row(job_id)["attempts"] == 1


def test_claims_of_a_name_that_was_declared_lost_are_dropped(scene: Scene, desk: Desk) -> None:
    desk.enqueue(scene.job())
    claimed_as = desk.identity.id
    finish = desk.consumer._hand_over

    def renew_first(worker: UUID, claims: Sequence[Claim]) -> None:
        desk.identity.renew()
        finish(worker, claims)

    desk.consumer._hand_over = renew_first  # type: ignore[method-assign]
    desk.step(2)
    assert desk.delivered == [] and len(desk.hands) == 0
    assert scene.count("jobs", f"status = 'running' AND worker = '{claimed_as}'") == 1


@pytest.mark.parametrize("loss", ["group", "stream", "everything"])
def test_a_reader_outlives_what_redis_lost(scene: Scene, desk: Desk, loss: str) -> None:
    desk.consumer.start()
    first = scene.job()
    desk.enqueue(first)
    eventually(lambda: desk.job_ids == [first])
    if loss == "group":
        scene.stream.client.xgroup_destroy(scene.keys.ready, "workers")
    elif loss == "stream":
        scene.stream.client.delete(scene.keys.ready)
    else:
        scene.stream.client.flushdb()
    second = scene.job()
    desk.enqueue(second)
    eventually(lambda: desk.job_ids == [first, second])


def test_without_memory_what_was_claimed_is_delivered_all_the_same(scene: Scene, desk: Desk) -> None:
    job_id, locked = scene.job(), scene.job()
    desk.enqueue(job_id, locked)
    scene.stream.client.config_set("maxmemory", "1")
    try:
        with scene.stores.engine.begin() as holder:
            holder.execute(text("SELECT FROM jobs WHERE id = :id FOR UPDATE"), {"id": locked})
            desk.consumer.start()
            eventually(lambda: desk.job_ids == [job_id])
        eventually(lambda: desk.job_ids == [job_id, locked])
    finally:
        scene.stream.client.config_set("maxmemory", "0")
    eventually(lambda: scene.on_the_way() == [])


def test_what_was_read_and_not_claimed_is_added_again_on_the_way_out(scene: Scene, desk: Desk) -> None:
    """C19: another worker need not wait until it is found."""
    job_id = scene.job()
    desk.enqueue(job_id)
    assert len(scene.stream.read(str(desk.identity.id), 10, 10)) == 1
    desk.stopping.set()
    desk.consumer.start()
    desk.consumer.join(5)
    assert desk.delivered == []
    assert [entry.ticket for entry in scene.stream.read(str(uuid7()), 10, 10)] == [scene.ticket(job_id)]
