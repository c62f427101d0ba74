"""Exactly one job an occurrence (C20), with several schedulers at work and connections lost at the wrong moment."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import redis
from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.exc import OperationalError

from app.config import Settings
from app.database import make_engine
from app.stores import Stores
from scheduler.cron import Cron
from tests.factories import Scene, shifted

pytestmark = pytest.mark.usefixtures("minute_begins")


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


@pytest.fixture
def many(settings: Settings) -> Iterator[Engine]:
    engine = make_engine(settings.require_stores()[0], 8)
    yield engine
    engine.dispose()


def assert_each_occurrence_made_one_job(scene: Scene, minutes: int) -> None:
    fired = {(row["cron_entry_id"], row["nominal_at"]): row["job_id"] for row in scene.all("cron_occurrences")}
    made = scene.all("jobs")
    assert len(made) == len({(row["cron_entry_id"], row["scheduled_for"]) for row in made}) == len(fired)
    assert {row["id"] for row in made} == set(fired.values())
    assert len(fired) % minutes == 0


def test_four_schedulers_at_once_make_one_job_an_occurrence(scene: Scene, many: Engine) -> None:
    entries = [scene.entry() for _ in range(25)]
    stores = Stores(many, scene.stream, scene.stores.bypass)
    with ThreadPoolExecutor(4) as pool:
        for minute in range(4):
            with shifted(scene.conn, minute * 60):
                list(pool.map(lambda _: Cron(stores).run_once(), range(4)))
                # What another held when one passed by is fired in the next pass.
                Cron(stores).run_once()
    assert_each_occurrence_made_one_job(scene, minutes=4)
    assert scene.count("jobs") == 4 * len(entries)
    assert len(scene.ready()) == 4 * len(entries)


@pytest.mark.parametrize("lost_at", ["occurrences", "jobs", "advance", "commit"])
def test_a_connection_lost_in_mid_firing_makes_no_second_job(scene: Scene, lost_at: str) -> None:
    entry = scene.entry()
    mark = {"occurrences": "INTO cron_occurrences", "jobs": "INTO jobs", "advance": "SET next_run_at"}.get(lost_at, "")
    lost: list[str] = []

    def lose(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        if mark and mark in statement and not lost:
            lost.append(statement)
            raise OperationalError(statement, {}, Exception("the connection is lost"), connection_invalidated=True)

    def lose_at_commit(conn: Connection) -> None:
        if not lost and not mark:
            # Committed, and the answer lost.
            lost.append("commit")
            conn.connection.commit()
            raise OperationalError("COMMIT", {}, Exception("the connection is lost"), connection_invalidated=True)

    cron = Cron(scene.stores)
    event.listen(scene.stores.engine, "after_cursor_execute", lose)
    event.listen(scene.stores.engine, "commit", lose_at_commit)
    try:
        with pytest.raises(OperationalError):
            cron.run_once()
    finally:
        event.remove(scene.stores.engine, "after_cursor_execute", lose)
        event.remove(scene.stores.engine, "commit", lose_at_commit)
    cron.run_once()
    assert lost and scene.count("jobs") == 1
    [occurrence] = scene.all("cron_occurrences")
    assert (occurrence["cron_entry_id"], occurrence["status"]) == (entry, "fired")


def test_the_next_time_follows_from_the_nominal_one(scene: Scene) -> None:
    """Fired 40 s late, a quarter-hourly entry goes on at the quarter."""
    nominal = scene.now().replace(minute=0, second=0, microsecond=0)
    scene.entry("*/15 * * * *", next_run_at=nominal)
    with shifted(scene.conn, (nominal - scene.now()).total_seconds() + 40):
        Cron(scene.stores).run_once()
    assert scene.all("cron_entries")[0]["next_run_at"] == nominal + timedelta(minutes=15)
    assert scene.all("jobs")[0]["run_at"] == nominal


def test_firing_waits_for_no_entry_that_is_locked(scene: Scene) -> None:
    locked, free = scene.entry(), scene.entry()
    with scene.stores.engine.begin() as holder:
        holder.execute(text("SELECT FROM cron_entries WHERE id = :id FOR UPDATE"), {"id": locked})
        Cron(scene.stores).run_once()
        assert [row["cron_entry_id"] for row in scene.all("jobs")] == [free]
    Cron(scene.stores).run_once()
    assert {row["cron_entry_id"] for row in scene.all("jobs")} == {locked, free}


def test_without_redis_entries_fire_all_the_same(scene: Scene) -> None:
    scene.entry()
    scene.stream.client.config_set("maxmemory", "1")
    try:
        Cron(scene.stores).run_once()
    finally:
        scene.stream.client.config_set("maxmemory", "0")
    assert (scene.count("jobs"), scene.ready()) == (1, [])
