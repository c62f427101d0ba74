"""Leadership (C21): one row, one holder by PostgreSQL's clock, who steps down by its own before the lease can end."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import pytest
import redis
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

from app.clock import Clock
from app.database import make_engine
from app.stores import Stores
from scheduler.leader import LEASE_SECONDS, RENEW_SECONDS, STANDBY_SECONDS, Leadership
from tests.factories import Scene, shifted


class Hours:
    """Stands in for boottime: passes when told to."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> Hours:
    hours = Hours()
    monkeypatch.setattr("scheduler.leader.boottime", hours)
    return hours


@pytest.fixture
def candidate(scene: Scene) -> Callable[[], Leadership]:
    return lambda: Leadership(scene.stores, Clock(), uuid4())


Candidate = Callable[[], Leadership]


def leads(one: Leadership) -> bool:
    return one.leads


def holder(scene: Scene) -> UUID | None:
    found: UUID | None = scene.all("leader")[0]["holder"]
    return found


def test_the_first_takes_the_lead_and_the_second_stands_by(hours: Hours, candidate: Candidate) -> None:
    first, second = candidate(), candidate()
    assert (first.step(), second.step()) == (RENEW_SECONDS, STANDBY_SECONDS)
    assert (leads(first), leads(second)) == (True, False)
    assert first.taken.is_set() and not second.taken.is_set()


def test_of_many_at_once_one_leads(scene: Scene) -> None:
    candidates = [Leadership(scene.stores, Clock(), uuid4()) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda one: one.step(), candidates))
    assert sum(leads(one) for one in candidates) == 1


def test_a_dead_leader_is_followed_when_its_lease_has_ended(scene: Scene, hours: Hours, candidate: Candidate) -> None:
    first, second = candidate(), candidate()
    first.step()
    with shifted(scene.conn, LEASE_SECONDS - 0.5):
        second.step()
        assert not leads(second)
    with shifted(scene.conn, LEASE_SECONDS + 0.1):
        second.step()
        assert leads(second)
    assert LEASE_SECONDS + STANDBY_SECONDS < 6


def test_a_renewal_moves_the_lease_on(scene: Scene, hours: Hours, candidate: Candidate) -> None:
    first, second = candidate(), candidate()
    first.step()
    before = scene.all("leader")[0]
    with shifted(scene.conn, 4):
        first.step()
    after = scene.all("leader")[0]
    assert (after["expires_at"] - before["expires_at"]).total_seconds() == pytest.approx(4, abs=1)
    assert after["acquired_at"] == before["acquired_at"]
    with shifted(scene.conn, 8):
        second.step()
    assert not leads(second)


def test_a_holder_steps_down_by_its_own_clock_before_its_lease_can_end(hours: Hours, candidate: Candidate) -> None:
    first = candidate()
    first.step()
    hours.seconds += LEASE_SECONDS - 1.1
    assert leads(first)
    hours.seconds += 0.2
    assert not leads(first)


def test_a_slow_renewal_counts_from_when_it_was_asked(
    scene: Scene, hours: Hours, candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = candidate()
    sync = Clock.sync

    def late(clock: Clock, told_at: object) -> None:
        hours.seconds += 4.5
        sync(clock, told_at)  # type: ignore[arg-type]

    monkeypatch.setattr(Clock, "sync", late)
    first.step()
    assert not leads(first)


def test_a_leader_that_slept_finds_another_in_its_place(scene: Scene, hours: Hours, candidate: Candidate) -> None:
    """SIGSTOP, and SIGCONT after somebody else took over."""
    first, second = candidate(), candidate()
    first.step()
    with shifted(scene.conn, 10):
        second.step()
        hours.seconds += 10
        assert not leads(first)
        assert first.step() == STANDBY_SECONDS
        assert not leads(first) and not first.taken.is_set()


def test_a_stop_in_order_gives_the_lead_up_at_once(scene: Scene, hours: Hours, candidate: Candidate) -> None:
    first, second = candidate(), candidate()
    first.step()
    first.give_up()
    assert (leads(first), holder(scene)) == (False, None)
    second.step()
    assert leads(second)


def test_giving_up_what_another_holds_changes_nothing(scene: Scene, hours: Hours, candidate: Candidate) -> None:
    first, second = candidate(), candidate()
    first.step()
    with shifted(scene.conn, 10):
        second.step()
    taken_by = holder(scene)
    first.give_up()
    assert holder(scene) == taken_by is not None


def test_without_postgresql_the_lead_ends_by_itself(scene: Scene, hours: Hours) -> None:
    leadership = Leadership(scene.stores, Clock(), uuid4())
    leadership.step()
    gone = Stores(away(), scene.stream, scene.stores.bypass)
    leadership._stores = gone
    hours.seconds += RENEW_SECONDS
    with pytest.raises(OperationalError):
        leadership.step()
    assert leads(leadership)
    hours.seconds += LEASE_SECONDS
    with pytest.raises(OperationalError):
        leadership.step()
    assert not leads(leadership) and not leadership.taken.is_set()


def away() -> Engine:
    return make_engine("postgresql+psycopg://nobody@/nowhere?host=/nowhere", 1)


def test_taking_the_lead_tells_the_time(scene: Scene, hours: Hours) -> None:
    clock = Clock()
    Leadership(scene.stores, clock, uuid4()).step()
    assert abs((clock.now() - scene.now()).total_seconds()) < 1
