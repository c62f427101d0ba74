"""`flask doctor`: each thing that can be wrong is found and named, and --repair fills Redis again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import redis
from sqlalchemy import Connection, Engine, text

from app.config import Settings, child_environment
from app.doctor import Finding, examine, refeed
from app.health import newest_migration
from tests.eventually import eventually
from tests.factories import Scene
from tests.processes import ROOT, Processes


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


def found(scene: Scene, settings: Settings) -> dict[str, Finding]:
    return {finding.what: finding for finding in examine(settings, scene.stores)}


def test_a_healthy_system_has_nothing_wrong(scene: Scene, settings: Settings, processes: Processes) -> None:
    processes.scheduler()
    processes.worker()
    eventually(lambda: {f.what for f in found(scene, settings).values() if f.level == "fail"} <= {"fsync"})
    # The databases of tests do without.
    assert {f.what for f in found(scene, settings).values() if f.level == "fail"} == {"fsync"}


def forget_migration(scene: Scene) -> None:
    scene.conn.execute(text("UPDATE alembic_version SET version_num = '0001'"))


def remember_migration(scene: Scene) -> None:
    scene.conn.execute(text("UPDATE alembic_version SET version_num = :newest"), {"newest": newest_migration()})


def lose_a_job(scene: Scene) -> None:
    scene.job()


def nothing(_: Scene) -> None: ...


@pytest.mark.parametrize(
    ("what", "breaks", "mends", "words"),
    [
        ("leader", nothing, nothing, "no scheduler leads"),
        ("workers", nothing, nothing, "python -m worker"),
        ("epoch", nothing, nothing, "lost its data"),
        ("migrations", forget_migration, remember_migration, "flask db upgrade"),
        ("drift", lose_a_job, nothing, "1 of them are nowhere in Redis"),
        (
            "maxmemory-policy",
            lambda scene: scene.stream.client.config_set("maxmemory-policy", "allkeys-lru"),
            lambda scene: scene.stream.client.config_set("maxmemory-policy", "noeviction"),
            "noeviction",
        ),
    ],
)
def test_what_is_wrong_is_named(
    scene: Scene,
    settings: Settings,
    what: str,
    breaks: Callable[[Scene], object],
    mends: Callable[[Scene], object],
    words: str,
) -> None:
    breaks(scene)
    try:
        finding = found(scene, settings)[what]
    finally:
        mends(scene)
    assert finding.level == "fail"
    assert words in finding.words


def test_what_is_on_its_way_is_no_drift(scene: Scene, settings: Settings) -> None:
    in_stream, waiting = scene.job(), scene.job("scheduled")
    scene.stream.add([scene.due(job_id) for job_id in (in_stream, waiting)], scene.now())
    assert found(scene, settings)["drift"].level == "ok"


def test_repair_fills_redis_again(scene: Scene, settings: Settings) -> None:
    jobs = [scene.job() for _ in range(3)]
    assert refeed(scene.stores) == 3
    assert sorted(scene.ready()) == sorted(scene.ticket(job_id).member for job_id in jobs)
    assert found(scene, settings)["drift"].level == "ok"


def test_the_command_says_so_and_exits_with_1(scene: Scene, settings: Settings) -> None:
    database_url, redis_url = settings.require_stores()
    lost = scene.job()
    env = child_environment(DATABASE_URL=database_url, REDIS_URL=redis_url, SECRET_KEY="of the tests", PYTHONTZPATH="")
    command = [sys.executable, "-m", "flask", "--app", "wsgi", "doctor", "--repair"]
    ended = subprocess.run(command, check=False, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1, ended.stderr
    assert "FAIL  workers: 0 alive" in ended.stdout
    assert "1 jobs were added to Redis again." in ended.stdout
    assert scene.ready() == [scene.ticket(lost).member]


def test_a_store_that_is_away_is_a_finding(scene: Scene, settings: Settings) -> None:
    env = child_environment(
        DATABASE_URL="postgresql://nobody@127.0.0.1:1/none",
        REDIS_URL="redis://127.0.0.1:1",
        SECRET_KEY="x",
        PYTHONTZPATH="",
    )
    command = [sys.executable, "-m", "flask", "--app", "wsgi", "doctor"]
    ended = subprocess.run(command, check=False, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "FAIL  PostgreSQL: cannot be used" in ended.stdout and "FAIL  Redis: cannot be used" in ended.stdout
    assert "Traceback" not in ended.stderr
