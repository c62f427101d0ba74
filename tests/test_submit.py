"""Accepting jobs: statuses, where a job goes in Redis, idempotency, and what stands when something dies on the way."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
import redis
from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.exc import OperationalError

from app import jobs
from app.config import Settings
from app.database import make_engine
from app.redis_client import make_redis
from app.stores import Stores
from app.stream import HORIZON, Stream, to_score
from tests.factories import Scene, make_client


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


@pytest.fixture
def many(settings: Settings) -> Iterator[Engine]:
    """An engine on which fifty threads can work at once."""
    engine = make_engine(settings.require_stores()[0], 50)
    yield engine
    engine.dispose()


def test_a_job_without_a_time_is_pending_and_goes_to_the_stream(scene: Scene) -> None:
    before = scene.now()
    submitted = jobs.submit(scene.stores, scene.request())
    assert (submitted.status, submitted.outcome) == ("pending", "created")
    assert before <= submitted.run_at <= scene.now()
    assert scene.ready() == [f"{submitted.job_id}:0:0"]
    assert scene.scheduled() == {}
    row = scene.row(submitted.job_id)
    assert (row["attempts"], row["max_attempts"], row["queue_generation"]) == (0, 5, 0)
    assert row["scheduled_for"] == row["run_at"] == submitted.run_at


def test_a_time_in_the_past_is_due_now_and_kept_as_asked(scene: Scene) -> None:
    asked = datetime(2020, 2, 29, 12, tzinfo=UTC)
    submitted = jobs.submit(scene.stores, scene.request(run_at=asked))
    assert (submitted.status, submitted.run_at) == ("pending", asked)
    assert scene.ready() == [f"{submitted.job_id}:0:0"]


@pytest.mark.parametrize("delay_seconds", [1.0, 29.5])
def test_a_job_within_the_horizon_goes_to_the_set(scene: Scene, delay_seconds: float) -> None:
    submitted = jobs.submit(scene.stores, scene.request(delay_seconds=delay_seconds))
    assert submitted.status == "scheduled"
    assert scene.scheduled() == {f"{submitted.job_id}:0:0": to_score(submitted.run_at)}
    assert scene.ready() == []


def test_a_delay_is_counted_by_postgresql(scene: Scene) -> None:
    before = scene.now()
    submitted = jobs.submit(scene.stores, scene.request(delay_seconds=7))
    assert before + timedelta(seconds=7) <= submitted.run_at <= scene.now() + timedelta(seconds=7)


def test_a_job_beyond_the_horizon_is_left_to_the_loader(scene: Scene) -> None:
    submitted = jobs.submit(scene.stores, scene.request(delay_seconds=HORIZON.total_seconds() + 5))
    assert submitted.status == "scheduled"
    assert scene.on_the_way() == []


def test_the_horizon_is_measured_after_the_commit(scene: Scene) -> None:
    """C13: a commit can take long (a slow standby), and the loader cannot have seen the row meanwhile."""
    scene.conn.execute(
        text(
            "CREATE FUNCTION slow_commit() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM pg_sleep(0.3); RETURN NULL; END $$"
        )
    )
    scene.conn.execute(
        text(
            "CREATE CONSTRAINT TRIGGER slow_commit AFTER INSERT ON jobs DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION slow_commit()"
        )
    )
    try:
        submitted = jobs.submit(scene.stores, scene.request(delay_seconds=HORIZON.total_seconds() + 0.2))
    finally:
        scene.conn.execute(text("DROP FUNCTION slow_commit CASCADE"))
    assert list(scene.scheduled()) == [f"{submitted.job_id}:0:0"]


def test_the_payload_is_kept_byte_for_byte(scene: Scene) -> None:
    payload = '{"b":1.50,  "a":[1, "\\u0000\\ud800", 12345678901234567890], "ü": "\\/"}'
    submitted = jobs.submit(scene.stores, scene.request(payload=payload))
    row = scene.row(submitted.job_id)
    assert row["payload"] == payload
    assert row["payload_bytes"] == len(payload.encode())


# Idempotency


def keyed(scene: Scene, key: str = "k", fingerprint: bytes = b"same", **changes: Any) -> jobs.JobRequest:
    return scene.request(idempotency_key=key, request_fingerprint=fingerprint, **changes)


def test_fifty_threads_with_one_key_make_one_job(scene: Scene, many: Engine) -> None:
    stores = Stores(many, scene.stream, scene.stores.bypass)
    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(lambda _: jobs.submit(stores, keyed(scene)), range(50)))
    assert scene.count("jobs") == 1
    assert len({answer.job_id for answer in answers}) == 1
    assert sorted(answer.outcome for answer in answers) == ["created"] + ["replayed"] * 49
    assert scene.ready() == [f"{answers[0].job_id}:0:0"]


def test_the_same_key_for_another_request_is_a_conflict(scene: Scene) -> None:
    first = jobs.submit(scene.stores, keyed(scene))
    second = jobs.submit(scene.stores, keyed(scene, fingerprint=b"other"))
    assert (second.outcome, second.job_id) == ("conflict", first.job_id)
    assert scene.count("jobs") == 1


def test_a_key_belongs_to_its_client(scene: Scene) -> None:
    first = jobs.submit(scene.stores, keyed(scene))
    second = jobs.submit(scene.stores, keyed(scene, client_id=make_client(scene.conn, "another")))
    assert (first.outcome, second.outcome) == ("created", "created")


def test_a_replay_answers_as_the_job_stands_and_enqueues_nothing(scene: Scene) -> None:
    first = jobs.submit(scene.stores, keyed(scene))
    scene.change(first.job_id, status="done", finished_at=scene.now())
    scene.stream.client.delete(scene.keys.ready)
    again = jobs.submit(scene.stores, keyed(scene))
    assert (again.outcome, again.status, again.job_id) == ("replayed", "done", first.job_id)
    assert scene.on_the_way() == []


def test_a_key_is_free_again_when_its_job_was_pruned(scene: Scene) -> None:
    first = jobs.submit(scene.stores, keyed(scene))
    scene.conn.execute(text("DELETE FROM jobs WHERE id = :id"), {"id": first.job_id})
    assert jobs.submit(scene.stores, keyed(scene)).outcome == "created"


def test_a_key_pruned_between_insert_and_look_up_is_tried_again(scene: Scene) -> None:
    """C9: the INSERT met the key, and the row was gone when it was looked for."""
    first = jobs.submit(scene.stores, keyed(scene))
    pruned: list[UUID] = []

    def prune(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "idempotency_key = " in statement and not pruned:
            pruned.append(first.job_id)
            scene.conn.execute(text("DELETE FROM jobs WHERE id = :id"), {"id": first.job_id})

    event.listen(scene.stores.engine, "before_cursor_execute", prune)
    try:
        again = jobs.submit(scene.stores, keyed(scene))
    finally:
        event.remove(scene.stores.engine, "before_cursor_execute", prune)
    assert pruned and again.outcome == "created" and again.job_id != first.job_id


# What stands when something dies on the way


@pytest.mark.parametrize("key", [None, "k"])
def test_a_connection_lost_at_commit_makes_no_second_job_and_enqueues_the_first(scene: Scene, key: str | None) -> None:
    """C7: the first INSERT was committed and its answer lost; the id was made before."""
    answers_lost: list[str] = []

    def lose_the_answer(conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "INSERT INTO jobs" in statement and not answers_lost:
            answers_lost.append(statement)
            raise OperationalError(statement, {}, Exception("the connection is lost"), connection_invalidated=True)

    event.listen(scene.stores.engine, "after_cursor_execute", lose_the_answer)
    try:
        submitted = jobs.submit(
            scene.stores, scene.request(idempotency_key=key, request_fingerprint=b"same", delay_seconds=5)
        )
    finally:
        event.remove(scene.stores.engine, "after_cursor_execute", lose_the_answer)
    assert answers_lost
    assert submitted.outcome == "created"
    assert scene.count("jobs") == 1
    assert list(scene.scheduled()) == [f"{submitted.job_id}:0:0"]


def test_an_error_of_the_request_itself_is_not_repeated(scene: Scene) -> None:
    with pytest.raises(Exception, match="check constraint"):
        jobs.submit(scene.stores, scene.request(max_attempts=0))
    assert scene.count("jobs") == 0


def test_without_redis_a_job_is_accepted_all_the_same(scene: Scene) -> None:
    away = Stores(
        scene.stores.engine, Stream(make_redis("unix:///nowhere/redis.sock", 0.3), scene.keys), scene.stores.bypass
    )
    for _ in range(3):
        submitted = jobs.submit(away, scene.request())
        assert (submitted.outcome, scene.status(submitted.job_id)) == ("created", "pending")
    assert scene.on_the_way() == []


def test_a_full_redis_does_not_refuse_a_job(scene: Scene) -> None:
    client = scene.stream.client
    client.config_set("maxmemory", "1")
    try:
        submitted = jobs.submit(scene.stores, scene.request())
    finally:
        client.config_set("maxmemory", "0")
    assert scene.status(submitted.job_id) == "pending"
    assert scene.on_the_way() == []
