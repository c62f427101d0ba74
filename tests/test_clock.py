"""One clock (C1): PostgreSQL's. A host's clock that is an hour off changes nothing."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
import redis
import time_machine
from sqlalchemy import Connection, Engine, text

from app import jobs, processes
from app.clock import Clock, boottime
from app.outcomes import decide
from scheduler.cron import Cron
from scheduler.leader import Leadership
from scheduler.loader import Loader
from scheduler.pruner import Pruner
from scheduler.rescuer import Rescuer
from tests.factories import Scene, answer, shifted
from worker.identity import Identity


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


def a_day_of_work(scene: Scene) -> dict[str, object]:
    """What each part decides, with everything that asks for a time in it."""
    seen: dict[str, object] = {}
    worker, silent = scene.worker(), scene.worker(silent_seconds=20)
    clock = scene.clock()
    seen["clock"] = abs((clock.now() - scene.now()).total_seconds()) < 1

    now, later = jobs.submit(scene.stores, scene.request()), jobs.submit(scene.stores, scene.request(delay_seconds=20))
    seen["submitted"] = (now.status, later.status, len(scene.ready()), len(scene.scheduled()))
    seen["delay"] = 19 < (later.run_at - scene.now()).total_seconds() <= 20
    seen["promoted early"] = scene.stream.promote(clock.now()).moved
    seen["put back"] = len(jobs.claim(scene.conn, worker, [scene.ticket(later.job_id)]).put_back)
    [claimed] = scene.claim(now.job_id, worker=worker)
    seen["lease"] = 59 < (scene.row(now.job_id)["lease_expires_at"] - scene.now()).total_seconds() <= 60

    ended = decide(claimed, answer("http_status"), clock.now(), 0.5)
    [recorded] = jobs.record(scene.conn, [jobs.ToRecord(ended, worker)])
    assert recorded.run_at is not None
    seen["retry"] = 0 < (recorded.run_at - scene.now()).total_seconds() <= 1
    seen["minute"] = abs((scene.all("minute_stats")[0]["minute"] - scene.now()).total_seconds()) < 120

    lost = scene.claim(scene.job(), worker=silent)[0]
    Rescuer(scene.stores, clock, lambda: 3600.0).run_once()
    seen["rescued"] = (scene.status(lost.job_id), processes.alive_workers(scene.conn) == {str(worker)})
    identity = Identity()
    identity.beaten(boottime())
    seen["may send"] = identity.may_send()

    scene.stream.client.delete(scene.keys.scheduled)
    Loader(scene.stores, clock).run_once()
    seen["loaded"] = len(scene.scheduled())
    due, not_due = scene.entry(), scene.entry(next_run_at=scene.now() + timedelta(minutes=5))
    Cron(scene.stores).run_once()
    seen["fired"] = (scene.count("jobs", f"cron_entry_id = {due}"), scene.count("jobs", f"cron_entry_id = {not_due}"))
    first, second = (Leadership(scene.stores, Clock(), uuid4()) for _ in range(2))
    first.step(), second.step()
    seen["leads"] = (first.leads, second.leads)
    kept = scene.job("done", finished_at=scene.now() - timedelta(days=30) + timedelta(minutes=30))
    gone = scene.job("done", finished_at=scene.now() - timedelta(days=30, minutes=30))
    Pruner(scene.stores, 30, 90).run_once()
    seen["pruned"] = (scene.count("jobs", f"id = '{kept}'"), scene.count("jobs", f"id = '{gone}'"))
    return seen


EXPECTED = {
    "clock": True,
    "submitted": ("pending", "scheduled", 1, 1),
    "delay": True,
    "promoted early": 0,
    "put back": 1,
    "lease": True,
    "retry": True,
    "minute": True,
    "rescued": ("scheduled", True),
    "may send": True,
    # The later one, and the two that wait for another attempt.
    "loaded": 3,
    "fired": (1, 0),
    "leads": (True, False),
    "pruned": (1, 0),
}


@pytest.mark.parametrize("hours", [0, 1, -1])
def test_a_host_clock_that_is_an_hour_off_changes_nothing(scene: Scene, hours: int) -> None:
    with time_machine.travel(datetime.now(UTC) + timedelta(hours=hours)):
        assert abs(time.time() - scene.now().timestamp() - hours * 3600) < 60
        assert a_day_of_work(scene) == EXPECTED


def test_a_host_clock_that_is_set_between_two_looks_changes_nothing() -> None:
    clock = Clock()
    told_at = datetime(2026, 12, 1, tzinfo=UTC)
    clock.sync(told_at)
    with time_machine.travel(datetime.now(UTC) + timedelta(hours=5)):
        assert timedelta(0) <= clock.now() - told_at < timedelta(seconds=1)


def test_the_clock_goes_on_by_boottime(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [100.0]
    monkeypatch.setattr("app.clock.boottime", lambda: seconds[0])
    clock = Clock()
    told_at = datetime(2026, 12, 1, tzinfo=UTC)
    clock.sync(told_at)
    seconds[0] += 7.5
    assert clock.now() == told_at + timedelta(seconds=7.5)
    clock.sync(told_at)
    assert clock.now() == told_at


def test_a_clock_that_was_told_nothing_does_not_guess() -> None:
    with pytest.raises(RuntimeError, match="not been told"):
        Clock().now()


def test_boottime_never_goes_back() -> None:
    first = boottime()
    with time_machine.travel(datetime.now(UTC) - timedelta(hours=1)):
        assert 0 <= boottime() - first < 60


def test_tests_move_postgresqls_time_and_set_it_right_again(scene: Scene) -> None:
    before = scene.now()
    with shifted(scene.conn, 3600):
        assert timedelta(seconds=3599) < scene.now() - before < timedelta(seconds=3660)
    assert scene.now() - before < timedelta(seconds=60)
    source = scene.conn.execute(text("SELECT prosrc FROM pg_proc WHERE proname = 'punctual_now'")).scalar_one()
    assert source.strip() == "SELECT clock_timestamp()"
