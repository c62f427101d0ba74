"""Changes in the background: evenly spread, in turns, counted truly, each failing for itself, and going on after a kill."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import redis
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DataError, OperationalError

from app.jobs import bulk_operations, search
from app.jobs.bulk import Action, By
from app.jobs.bulk_operations import Operation
from app.jobs.search import JobSearch
from scheduler.bulk import MOST_TIMEOUTS, Bulk
from tests.eventually import eventually
from tests.factories import Scene
from tests.processes import Processes

DEAD = text("""
    INSERT INTO jobs (id, client_id, queue_id, type, payload, payload_bytes, callback_url, callback_host, status, run_at, scheduled_for,
                      first_due_at, attempts, max_attempts, timeout_seconds, finished_at, created_at, updated_at)
    SELECT gen_random_uuid(), :client_id, (SELECT min(id) FROM queues WHERE client_id = :client_id), 't', '1', 1, 'http://127.0.0.1:9/',
           'http://127.0.0.1:9', 'dead', now, now, now, 5, 5, 10, now, now, now
    FROM (SELECT punctual_now() - interval '1 minute' AS now) AS earlier, generate_series(1, :count)
""")


class Timeout(Exception):
    sqlstate = "57014"


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


def dead(scene: Scene, count: int) -> None:
    scene.conn.execute(DEAD, {"client_id": scene.client_id, "count": count})


def ask(scene: Scene, action: Action = "retry", spread_seconds: float | None = None) -> int:
    by = By("api_key", "key", client_id=scene.client_id)
    return bulk_operations.ask(
        scene.stores.engine, action, JobSearch(client_id=scene.client_id), by, spread_seconds=spread_seconds
    )


def found(scene: Scene, operation_id: int) -> Operation:
    operation = bulk_operations.get(scene.stores.engine, None, operation_id)
    assert operation is not None
    return operation


def run(scene: Scene) -> None:
    leader = Bulk(scene.stores)
    while leader.run_once() == 0:
        pass


def test_a_spread_is_even_though_the_number_is_only_estimated(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "COUNT_CAP", 50)
    monkeypatch.setattr(bulk_operations, "BATCH", 100)
    dead(scene, 1000)
    operation_id = ask(scene, spread_seconds=1000)
    scene.conn.execute(text("UPDATE bulk_operations SET matched = 200"))
    run(scene)
    tenths = scene.conn.execute(
        text("""
            SELECT count(*) FROM jobs, (SELECT min(run_at) AS first FROM jobs) AS f
            GROUP BY width_bucket(extract(epoch FROM run_at - first)::float8, 0, 1001, 10)
        """)
    ).scalars()
    counts = list(tenths)
    assert len(counts) == 10 and all(90 <= count <= 110 for count in counts), counts
    operation = found(scene, operation_id)
    assert (operation.matched, operation.changed) == (1000, 1000), "what was found takes the estimate's place"


def test_jobs_that_changed_meanwhile_are_counted_as_passed_by(scene: Scene) -> None:
    dead(scene, 5)
    operation_id = ask(scene)
    scene.conn.execute(
        text("UPDATE jobs SET updated_at = punctual_now() WHERE id IN (SELECT id FROM jobs ORDER BY id LIMIT 2)")
    )
    run(scene)
    operation = found(scene, operation_id)
    assert (operation.matched, operation.changed, operation.passed_by) == (5, 3, 2)


def test_operations_take_turns(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_operations, "BATCH", 1)
    dead(scene, 20)
    large = ask(scene)
    done = scene.job("done", updated_at=scene.now() - timedelta(minutes=1))
    small = bulk_operations.ask(
        scene.stores.engine, "delete", JobSearch(statuses=("done",)), By("user", "ada"), through=done
    )
    leader = Bulk(scene.stores)
    for _ in range(4):
        leader.run_once()
    assert (found(scene, small).state, found(scene, large).state) == ("done", "running")


def test_one_that_fails_ends_itself_and_no_other(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    dead(scene, 2)
    broken, stopped = ask(scene), ask(scene)
    whole = ask(scene)
    step = bulk_operations.step

    def fails(stores: Any, operation_id: int) -> bool:
        if operation_id == whole:
            return step(stores, operation_id)
        bulk_operations.stop(scene.stores.engine, stopped, By("user", "ada"))
        raise DataError("a statement", {}, Exception("broken\nmore"))

    monkeypatch.setattr(bulk_operations, "step", fails)
    run(scene)
    states = [found(scene, each).state for each in (broken, stopped, whole)]
    assert states == ["failed", "stopped", "done"]
    assert found(scene, broken).error == "broken"
    assert found(scene, whole).changed == 2


def test_one_that_takes_too_long_again_and_again_fails(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    dead(scene, 1)
    operation_id = ask(scene)

    def slow(*_: Any) -> bool:
        raise OperationalError("a statement", {}, Timeout("too long"))

    monkeypatch.setattr(bulk_operations, "step", slow)
    leader = Bulk(scene.stores)
    for _ in range(MOST_TIMEOUTS - 1):
        with pytest.raises(OperationalError):
            leader.run_once()
        assert found(scene, operation_id).state == "waiting"
    leader.run_once()
    assert found(scene, operation_id).state == "failed"


@pytest.mark.parametrize("client_id", [None, 0], ids=["a user", "another client"])
def test_a_stop_is_on_record_with_who_did_it(scene: Scene, client_id: int | None) -> None:
    dead(scene, 1)
    operation_id = ask(scene)
    is_stopped = bulk_operations.stop(scene.stores.engine, operation_id, By("user", "ada", client_id=client_id))
    notes = [row for row in scene.all("audit_log") if row["action"] == "job.bulk_retry_stop"]
    assert is_stopped == (client_id is None)
    assert [(row["actor"], row["client_id"]) for row in notes] == [("ada", scene.client_id)] * is_stopped


def test_another_scheduler_goes_on_where_one_was_killed(scene: Scene, processes: Processes) -> None:
    dead(scene, 8_000)
    operation_id = ask(scene, "retry", spread_seconds=86_400)
    first = processes.scheduler()
    eventually(lambda: found(scene, operation_id).changed >= 500, timeout=20)
    first.kill()
    assert found(scene, operation_id).state == "running"
    processes.scheduler()
    eventually(lambda: found(scene, operation_id).state == "done", timeout=60)
    assert found(scene, operation_id).changed == 8_000
    assert scene.count("jobs", "status = 'scheduled' AND queue_generation = 1") == 8_000
