"""/healthz: what it says when a store is there, away, or hangs."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Connection, text

from app import create_app
from app.config import Settings
from app.health import Check, newest_migration, stores_away
from tests.eventually import eventually
from tests.processes import Processes, free_port


def test_all_is_well_without_a_key(client: FlaskClient) -> None:
    answer = client.get("/healthz")
    assert (answer.status_code, answer.get_json()) == (200, {"status": "ok"})


def ask_with(settings: Settings, **changes: str) -> tuple[int, object]:
    kept = {"DATABASE_URL": settings.database_url or "", "REDIS_URL": settings.redis_url or ""}
    answer = (
        create_app(Settings.from_env({**kept, "SECRET_KEY": "of the tests", **changes})).test_client().get("/healthz")
    )
    return answer.status_code, answer.get_json()


def test_a_store_that_is_away_is_named(app: Flask, settings: Settings) -> None:
    no_redis, no_database = "unix:///nowhere/redis.sock", "postgresql://punctual@127.0.0.1:1/none"
    assert ask_with(settings, REDIS_URL=no_redis) == (503, {"status": "unavailable", "away": ["redis"]})
    assert ask_with(settings, DATABASE_URL=no_database) == (503, {"status": "unavailable", "away": ["postgresql"]})
    both = (503, {"status": "unavailable", "away": ["postgresql", "redis"]})
    assert ask_with(settings, REDIS_URL=no_redis, DATABASE_URL=no_database) == both


@pytest.fixture
def deaf_socket(tmp_path: Path) -> Iterator[Path]:
    """Something that takes connections and never answers, as a stopped process does."""
    path = tmp_path / ".s.PGSQL.5432"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(8)
        yield path


def test_a_store_that_hangs_is_away_within_about_a_second(app: Flask, settings: Settings, deaf_socket: Path) -> None:
    began_at = time.monotonic()
    hanging = {
        "DATABASE_URL": f"postgresql://punctual@/none?host={deaf_socket.parent}",
        "REDIS_URL": f"unix://{deaf_socket}",
    }
    assert ask_with(settings, **hanging) == (503, {"status": "unavailable", "away": ["postgresql", "redis"]})
    assert time.monotonic() - began_at < 2.5


def test_a_hanging_store_is_asked_once_and_then_again() -> None:
    asked, answers = [], threading.Event()

    def ask() -> None:
        asked.append(1)
        answers.wait(10)

    check = Check("store", ask)
    assert [stores_away([check], 0.01) for _ in range(3)] == [["store"]] * 3
    assert len(asked) == 1
    answers.set()
    assert stores_away([check], 5) == []
    assert stores_away([check], 5) == []
    assert len(asked) > 1


def test_it_lives_whatever_is_away(settings: Settings) -> None:
    nowhere = {"DATABASE_URL": "postgresql://punctual@127.0.0.1:1/none", "REDIS_URL": "unix:///nowhere/redis.sock"}
    app = create_app(Settings.from_env({**nowhere, "SECRET_KEY": "of the tests"}))
    assert app.test_client().get("/livez").status_code == 200
    assert app.test_client().get("/readyz").get_json()["away"] == ["postgresql", "redis", "migrations"]


def test_it_is_not_ready_before_the_migrations_and_still_is_when_the_next_releases_came(
    client: FlaskClient, db_conn: Connection
) -> None:
    at = text("UPDATE alembic_version SET version_num = :at")
    assert client.get("/readyz").status_code == 200
    try:
        db_conn.execute(at, {"at": "0001"})
        assert client.get("/readyz").get_json() == {"status": "unavailable", "away": ["migrations"]}
        assert client.get("/healthz").status_code == 200
        db_conn.execute(at, {"at": f"{int(newest_migration()) + 1:04}"})
        assert client.get("/readyz").get_json() == {"status": "ok"}
    finally:
        db_conn.execute(at, {"at": newest_migration()})


def test_it_is_not_ready_while_it_is_about_to_leave(client: FlaskClient, settings: Settings) -> None:
    settings.leaving_file.touch()
    try:
        answer = client.get("/readyz")
        assert (answer.status_code, answer.get_json()) == (503, {"status": "leaving"})
        assert [client.get(path).status_code for path in ("/livez", "/healthz")] == [200, 200]
    finally:
        settings.leaving_file.unlink()
    assert client.get("/readyz").status_code == 200


@pytest.mark.parametrize("program", ["worker", "scheduler"])
def test_workers_and_schedulers_answer_on_a_port_of_their_own(processes: Processes, program: str) -> None:
    port = free_port()
    child = processes.start(program, "-m", program, PROBE_PORT=str(port), HOST="127.0.0.1")

    def ask(path: str) -> int:
        try:
            return requests.get(f"http://127.0.0.1:{port}{path}", timeout=5).status_code
        except requests.ConnectionError:
            return 0

    eventually(lambda: ask("/livez") == 200)
    assert (ask("/readyz"), ask("/metrics"), ask("/other")) == (200, 200, 404)
    child.ask_to_stop()
    eventually(lambda: ask("/livez") == 0)


def test_each_process_of_a_pool_answers_on_a_port_of_its_own_and_asks_for_the_token(processes: Processes) -> None:
    port = free_port()
    processes.worker("--processes", "2", PROBE_PORT=str(port), METRICS_TOKEN="open sesame")

    def ask(each: int, token: str) -> tuple[int, str]:
        try:
            headers = {"Authorization": f"Bearer {token}"}
            answer = requests.get(f"http://127.0.0.1:{each}/metrics", headers=headers, timeout=5)
        except requests.ConnectionError:
            return 0, ""
        return answer.status_code, answer.text

    for each in (port, port + 1):
        eventually(lambda each=each: ask(each, "open sesame")[0] == 200)
        assert "worker_in_flight 0.0" in ask(each, "open sesame")[1]
        status, words = ask(each, "other")
        assert (status, "worker_in_flight" in words) == (401, False)
