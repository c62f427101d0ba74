"""The circuit breaker: when it opens and closes, and that what it holds back burns no attempt."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
import redis
from sqlalchemy import Connection, Engine, text

from app import circuits, jobs
from app.circuits import Outcome, counts_as_failure
from app.circuits.rules import FIRST_PAUSE, LONGEST_PAUSE, WINDOW, State, after_attempts, after_probe
from app.database import transaction
from app.demo_receiver import DemoReceiver
from app.ids import uuid7
from app.signing import new_secret
from tests.eventually import eventually
from tests.factories import Scene
from tests.processes import Processes

NOW = datetime(2026, 12, 1, 10, tzinfo=UTC)
HOST = "https://hooks.example:443"


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    scene = Scene.on(engine, redis_client, db_conn)
    scene.conn.execute(text("UPDATE clients SET signing_secret = :secret"), {"secret": new_secret()})
    return scene


# The rules


@pytest.mark.parametrize(
    ("error_class", "status_code", "is_failure"),
    [
        (None, 200, False),
        ("http_5xx", 500, True),
        ("timeout", None, True),
        ("connect", None, True),
        ("dns", None, True),
        ("tls", None, True),
        ("protocol", None, True),
        ("http_4xx", 429, True),
        ("http_4xx", 408, True),
        ("http_4xx", 404, None),
        ("redirect", 302, None),
        ("blocked", None, None),
        ("lost", None, None),
    ],
)
def test_what_says_something_about_a_host(
    error_class: str | None, status_code: int | None, is_failure: bool | None
) -> None:
    assert counts_as_failure(error_class, status_code) is is_failure


@pytest.mark.parametrize(
    ("successes", "failures", "is_open"),
    [(0, 9, False), (0, 10, True), (3, 7, True), (4, 7, False), (31, 69, False), (30, 70, True), (100, 0, False)],
)
def test_it_opens_at_seventy_percent_of_ten(successes: int, failures: int, is_open: bool) -> None:
    state = after_attempts(State(), successes, failures, NOW)
    assert state.is_open is is_open
    assert (state.retry_at == NOW + FIRST_PAUSE) is is_open


def test_only_the_last_five_minutes_count() -> None:
    state = after_attempts(State(), 0, 9, NOW)
    assert after_attempts(state, 0, 1, NOW + WINDOW - timedelta(seconds=1)).is_open
    assert not after_attempts(state, 0, 1, NOW + WINDOW).is_open


def test_each_failed_try_doubles_the_pause_and_a_success_closes() -> None:
    state, now, pauses = after_attempts(State(), 0, 10, NOW), NOW, []
    for _ in range(8):
        assert state.retry_at is not None
        pauses.append(state.retry_at - now)
        now = state.retry_at
        state = after_probe(state, True, now)
    assert [pause.total_seconds() for pause in pauses] == [30, 60, 120, 240, 480, 900, 900, 900]
    assert pauses[-1] == LONGEST_PAUSE
    assert (state.opened_at, state.openings) == (NOW, 1)
    closed = after_probe(state, False, now)
    assert (closed.is_open, closed.trips, closed.openings) == (False, 0, 1)


def test_what_ends_while_it_is_open_changes_nothing() -> None:
    state = after_attempts(State(), 0, 10, NOW)
    assert after_attempts(state, 100, 100, NOW) is state


# What is stored


def count(scene: Scene, successes: int, failures: int, host: str = HOST, job_id: UUID | None = None) -> list[str]:
    kinds = [False] * successes + [True] * failures
    with transaction(scene.stores.engine) as conn:
        ended = [Outcome(scene.client_id, host, job_id or uuid7(), is_failure) for is_failure in kinds]
        return [change.change for change in circuits.record(conn, ended)]


def test_a_circuit_opens_once_and_is_told_of(scene: Scene) -> None:
    assert count(scene, 2, 5) == []
    assert count(scene, 0, 5) == ["opened"]
    assert count(scene, 0, 5) == []
    [row] = scene.all("circuits")
    assert (row["host"], row["openings"], row["trips"]) == (HOST, 1, 1)
    noted = scene.conn.execute(text("SELECT actor_kind, action, target_id FROM audit_log")).all()
    assert [tuple(row) for row in noted] == [("system", "circuit.opened", HOST)]


def test_one_job_at_a_time_tries(scene: Scene) -> None:
    first, second = (scene.job(callback_host=HOST) for _ in range(2))
    count(scene, 0, 10)
    assert not circuits.begin_probe(scene.conn, first)
    scene.conn.execute(text("UPDATE circuits SET retry_at = punctual_now()"))
    assert circuits.begin_probe(scene.conn, first)
    assert not circuits.begin_probe(scene.conn, second)
    scene.conn.execute(
        text("UPDATE jobs SET status = 'cancelled', finished_at = punctual_now() WHERE id = :id"), {"id": first}
    )
    assert circuits.begin_probe(scene.conn, second)
    assert count(scene, 1, 0, job_id=uuid7()) == []
    assert count(scene, 1, 0, job_id=second) == ["closed"]


def test_what_an_open_circuit_holds_is_not_claimed(scene: Scene) -> None:
    held, free = scene.job(callback_host=HOST), scene.job(callback_host="https://other.example:443")
    count(scene, 0, 10)
    claimed = jobs.claim(scene.conn, scene.worker(), [scene.ticket(held), scene.ticket(free)])
    assert [claim.job_id for claim in claimed.claims] == [free]
    assert [job.ticket for job in claimed.held] == [scene.ticket(held)]
    assert claimed.held[0].run_at == scene.all("circuits")[0]["retry_at"]
    assert scene.row(held)["attempts"] == 0


# With a real worker


@pytest.mark.parametrize("by_queue", [True, False])
def test_a_failing_host_is_left_alone_until_it_answers_again(
    scene: Scene, processes: Processes, receiver: DemoReceiver, by_queue: bool
) -> None:
    if by_queue:
        scene.conn.execute(text("UPDATE queues SET circuit_breaker = true"))
    processes.scheduler()
    processes.worker(CIRCUIT_BREAKER="off" if by_queue else "on")

    def submit(path: str, **changes: object) -> UUID:
        asked = {"callback_url": f"{receiver.url}{path}", "callback_host": receiver.url, **changes}
        return jobs.submit(scene.stores, scene.request(**asked)).job_id

    for _ in range(10):
        submit("/hook-fail", max_attempts=1)
    eventually(lambda: scene.count("circuits", "opened_at IS NOT NULL") == 1)
    seen = len(receiver.record.newest_first())
    held = [submit("/hook") for _ in range(5)]
    eventually(lambda: len(scene.scheduled()) == 5)
    assert {(scene.status(job_id), scene.row(job_id)["attempts"]) for job_id in held} == {("pending", 0)}
    assert len(receiver.record.newest_first()) == seen
    scene.conn.execute(text("UPDATE circuits SET retry_at = punctual_now()"))
    scene.stream.client.delete(scene.keys.scheduled)
    scene.stream.add([scene.due(job_id) for job_id in held], scene.now())
    eventually(lambda: scene.count("circuits", "opened_at IS NULL") == 1, timeout=15)
    eventually(lambda: {scene.status(job_id) for job_id in held} == {"done"}, timeout=15)
    assert {scene.row(job_id)["attempts"] for job_id in held} == {1}
