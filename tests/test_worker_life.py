"""A worker's life (C17, C19): its beats, its names, and its recorder while PostgreSQL or a row is in the way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import redis
from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.exc import OperationalError

from app import processes
from app.attempts import Claim
from app.clock import boottime
from app.processes import SEND_WITHIN_SECONDS, SILENCE_SECONDS
from tests.eventually import eventually
from tests.factories import Scene, answer
from worker.hands import Hands
from worker.heartbeat import STUCK_SECONDS, Heartbeat
from worker.identity import Identity
from worker.recorder import Recorder


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


class Stage:
    """A thread's sign of turning over, which is all the heartbeat looks at."""

    name = "stage"

    def __init__(self) -> None:
        self.turned_over_at = time.monotonic()


class Worker:
    """Identity, hands and heartbeat; `unsent` is what the deliverer would give back."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.identity, self.hands, self.stage = Identity(), Hands(100), Stage()
        self.unsent: list[Claim] = []
        self.heartbeat = Heartbeat(
            stores=scene.stores,
            clock=scene.clock(),
            identity=self.identity,
            hands=self.hands,
            stages=[self.stage],
            take_unsent=lambda: self.unsent,
        )

    def hold(self, *claims_of: Any) -> list[Claim]:
        claims = self.scene.claim(*claims_of, worker=self.identity.id)
        self.hands.take(claims, self.identity.id)
        return claims


@pytest.fixture
def worker(scene: Scene) -> Worker:
    return Worker(scene)


def test_nothing_is_sent_before_the_row_is_there(scene: Scene, worker: Worker) -> None:
    assert not worker.identity.may_send()
    worker.heartbeat.register()
    assert worker.identity.may_send()
    assert processes.alive_workers(scene.conn) == {str(worker.identity.id)}


def test_sending_ends_well_before_anybody_may_be_declared_lost(worker: Worker) -> None:
    assert SEND_WITHIN_SECONDS + 3 < SILENCE_SECONDS
    worker.identity.beaten(boottime() - SEND_WITHIN_SECONDS + 0.5)
    assert worker.identity.may_send()
    worker.identity.beaten(boottime() - SEND_WITHIN_SECONDS)
    assert not worker.identity.may_send()


def test_a_beat_extends_the_leases_that_end_soon(scene: Scene, worker: Worker) -> None:
    worker.heartbeat.register()
    [held] = worker.hold(scene.job())
    scene.change(held.job_id, lease_expires_at=scene.now() + timedelta(seconds=10))
    assert 0 < worker.heartbeat.step() <= 3
    assert scene.row(held.job_id)["lease_expires_at"] - scene.now() > timedelta(seconds=55)


def test_a_stage_that_stands_still_stops_the_beats(scene: Scene, worker: Worker) -> None:
    worker.heartbeat.register()
    before = scene.all("processes")[0]["beat_at"]
    worker.stage.turned_over_at -= STUCK_SECONDS + 1
    worker.heartbeat.step()
    assert scene.all("processes")[0]["beat_at"] == before


@pytest.mark.parametrize("how", ["lost", "gone"])
def test_one_declared_lost_drops_what_was_not_sent_and_goes_on_under_a_new_name(
    scene: Scene, worker: Worker, how: str
) -> None:
    worker.heartbeat.register()
    old = worker.identity.id
    sent, unsent = worker.hold(scene.job(), scene.job())
    worker.unsent = [unsent]
    statement = "UPDATE processes SET lost_at = punctual_now()" if how == "lost" else "DELETE FROM processes"
    scene.conn.execute(text(statement))
    assert worker.heartbeat.step() == 0
    assert worker.identity.id != old and worker.identity.may_send()
    assert processes.alive_workers(scene.conn) == {str(worker.identity.id)}
    # What was sent is recorded under the old name when it ends.
    assert (worker.hands.worker_of(sent), worker.hands.worker_of(unsent)) == (old, None)


def test_a_beat_that_fails_counts_for_nothing(scene: Scene, worker: Worker) -> None:
    worker.heartbeat.register()
    worker.identity.beaten(boottime() - 100)

    def refuse(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        raise OperationalError(statement, {}, Exception("away"))

    event.listen(scene.stores.engine, "before_cursor_execute", refuse)
    try:
        with pytest.raises(OperationalError):
            worker.heartbeat.step()
    finally:
        event.remove(scene.stores.engine, "before_cursor_execute", refuse)
    assert not worker.identity.may_send()


# The recorder


@pytest.fixture
def recorder(scene: Scene, worker: Worker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    monkeypatch.setattr("worker.recorder.PAUSE_AFTER_ERROR_SECONDS", 0.01)
    worker.heartbeat.register()
    recorder = Recorder(stores=scene.stores, clock=scene.clock(), hands=worker.hands)
    recorder.start()
    yield recorder
    recorder.close()
    recorder.join(5)


def test_results_are_stored_places_freed_and_retries_sent_on_their_way(
    scene: Scene, worker: Worker, recorder: Recorder
) -> None:
    good, bad = worker.hold(scene.job(), scene.job())
    recorder.answered([(good, answer()), (bad, answer("http_status"))])
    eventually(lambda: recorder.is_idle and len(worker.hands) == 0)
    assert (scene.status(good.job_id), scene.status(bad.job_id)) == ("done", "scheduled")
    assert list(scene.scheduled()) == [f"{bad.job_id}:0:1"]


def test_while_postgresql_is_away_results_wait(scene: Scene, worker: Worker, recorder: Recorder) -> None:
    [held] = worker.hold(scene.job())
    refused: list[str] = []

    def refuse(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        if "INTO executions" in statement and len(refused) < 3:
            refused.append(statement)
            raise OperationalError(statement, {}, Exception("away"))

    event.listen(scene.stores.engine, "before_cursor_execute", refuse)
    try:
        recorder.answered([(held, answer())])
        eventually(lambda: len(worker.hands) == 0)
    finally:
        event.remove(scene.stores.engine, "before_cursor_execute", refuse)
    assert (len(refused), scene.status(held.job_id)) == (3, "done")


def test_a_locked_row_is_stored_when_it_is_free(scene: Scene, worker: Worker, recorder: Recorder) -> None:
    locked, free, unsent = worker.hold(scene.job(), scene.job(), scene.job())
    with scene.stores.engine.begin() as holder:
        holder.execute(
            text("SELECT FROM jobs WHERE id IN (:a, :b) FOR UPDATE"), {"a": locked.job_id, "b": unsent.job_id}
        )
        recorder.answered([(locked, answer()), (free, answer())])
        recorder.unsent([unsent])
        eventually(lambda: scene.status(free.job_id) == "done")
        assert scene.status(locked.job_id) == scene.status(unsent.job_id) == "running"
    eventually(lambda: len(worker.hands) == 0)
    assert (scene.status(locked.job_id), scene.status(unsent.job_id)) == ("done", "scheduled")
    assert scene.row(unsent.job_id)["attempts"] == 0
    assert scene.on_the_way() == [f"{unsent.job_id}:0:0"]


def test_two_attempts_of_one_job_do_not_meet_in_a_batch(scene: Scene, worker: Worker, recorder: Recorder) -> None:
    [first] = worker.hold(scene.job())
    again = replace(first, attempt=2)
    worker.hands.take([again], worker.identity.id)
    recorder.answered([(first, answer()), (again, answer())])
    eventually(lambda: len(worker.hands) == 0)
    assert scene.status(first.job_id) == "done"


def test_an_answer_that_cannot_be_read_does_not_hold_up_the_others(
    scene: Scene, worker: Worker, recorder: Recorder
) -> None:
    odd, good = worker.hold(scene.job(), scene.job())
    headers: Any = ((None, "x"),)
    recorder.answered([(odd, answer("http_status", response_headers=headers)), (good, answer())])
    eventually(lambda: len(worker.hands) == 0)
    assert (scene.status(odd.job_id), scene.status(good.job_id)) == ("scheduled", "done")


def test_a_name_given_up_still_records_what_it_sent(scene: Scene, worker: Worker, recorder: Recorder) -> None:
    """C10, from the worker's side."""
    from app.jobs import record
    from tests.factories import lost

    [sent] = worker.hold(scene.job())
    record(scene.conn, [lost(sent, worker.identity.id)])
    worker.identity.renew()
    recorder.answered([(sent, answer())])
    eventually(lambda: len(worker.hands) == 0)
    assert scene.status(sent.job_id) == "done"
    assert [execution["status"] for execution in scene.executions(sent.job_id)] == ["succeeded"]
