"""The fixtures: throw-away stores once a run, an application on them, real processes, and everything emptied after each test."""

from __future__ import annotations

import base64
import hashlib
import secrets
import shutil
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from flask import Flask, g
from flask.testing import FlaskClient
from flask_migrate import upgrade
from sqlalchemy import Connection, Engine, text
from werkzeug.test import TestResponse

from app import create_app
from app.config import Settings
from app.demo_receiver import DemoReceiver
from app.embedded import EmbeddedStores
from app.embedded_home import POINTER
from app.extensions import db
from app.redis_client import make_redis
from tests.processes import Processes
from tests.shifted_time import early_in_a_minute

# Rows that the migrations put there stay.
KEPT_TABLES = ("alembic_version", "leader")
FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Lets a fixture know at its end whether the test failed."""
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.fixture(scope="session")
def stores() -> Iterator[EmbeddedStores]:
    """PostgreSQL and Redis for this run alone."""
    with EmbeddedStores.throwaway() as stores:
        yield stores


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """A data folder that PostgreSQL's uid can get to, also as root: pytest makes its own private."""
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    yield tmp_path / "data"
    for pointer in tmp_path.rglob(POINTER):
        shutil.rmtree(Path(pointer.read_text().strip()).parent, ignore_errors=True)


@pytest.fixture(scope="session")
def settings(stores: EmbeddedStores, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings.from_env(
        {
            "DATABASE_URL": stores.database_url,
            "REDIS_URL": stores.redis_url,
            "SECRET_KEY": "of the tests",
            "DATA_DIR": str(tmp_path_factory.mktemp("data")),
        }
    )


class ForgetfulClient(FlaskClient):
    """The tests' application context outlives requests, and what a request has kept there with it: not past the next one."""

    def open(self, *args: Any, **options: Any) -> TestResponse:
        for kept in list(g):
            g.pop(kept)
        return super().open(*args, **options)


@pytest.fixture(scope="session")
def migrated_app(settings: Settings) -> Iterator[Flask]:
    """The application on a database at the last migration. Tests take `app`, which empties the stores after them."""
    app = create_app(settings)
    app.testing = True
    app.test_client_class = ForgetfulClient
    with app.app_context():
        upgrade()
        yield app
        db.engine.dispose()


@pytest.fixture
def app(migrated_app: Flask, stores: EmbeddedStores) -> Iterator[Flask]:
    yield migrated_app
    with migrated_app.app_context():
        db.session.remove()
    empty_database(db.engine)
    with make_redis(stores.redis_url, 5.0) as client:
        client.flushdb()


def empty_database(engine: Engine) -> None:
    """Deletes the rows of every table that has some. For so few, DELETE is ten times faster than TRUNCATE."""
    tables = [table.name for table in db.metadata.sorted_tables if table.name not in KEPT_TABLES]
    questions = ", ".join(f"EXISTS (SELECT FROM {name}) AS {name}" for name in tables)
    with engine.begin() as conn:
        used = [name for name, is_used in conn.execute(text(f"SELECT {questions}")).mappings().one().items() if is_used]
        # Foreign keys are not looked at in this role, so the order is free.
        conn.execute(text("SET LOCAL session_replication_role = replica"))
        for name in used:
            conn.execute(text(f"DELETE FROM {name}"))
        conn.execute(text("UPDATE leader SET holder = NULL"))


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()


@pytest.fixture
def engine(app: Flask) -> Engine:
    return db.engine


@pytest.fixture
def db_conn(engine: Engine) -> Iterator[Connection]:
    """A connection on which each statement is committed at once, so that processes see it."""
    with engine.connect() as conn:
        yield conn.execution_options(isolation_level="AUTOCOMMIT")


@pytest.fixture
def redis_client(app: Flask, stores: EmbeddedStores) -> Iterator[redis.Redis]:
    with make_redis(stores.redis_url, 5.0) as client:
        yield client


@pytest.fixture
def minute_begins(db_conn: Connection) -> Iterator[None]:
    """For tests that count minutes: PostgreSQL's time is 5 s past one."""
    with early_in_a_minute(db_conn):
        yield


@pytest.fixture
def api_key(db_conn: Connection) -> str:
    """A key of the client `tests`, whose quota is out of the way."""
    return make_api_key(db_conn, "tests")


def make_api_key(conn: Connection, client_name: str, rate_limit_per_minute: int = 1_000_000) -> str:
    """A client with one key; returns the key."""
    key = f"pk_{secrets.token_urlsafe(32)}"
    client_id = conn.execute(
        text(
            "INSERT INTO clients (name, rate_limit_per_minute, signing_secret) VALUES (:name, :limit, :secret) RETURNING id"
        ),
        {
            "name": client_name,
            "limit": rate_limit_per_minute,
            "secret": f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}",
        },
    ).scalar_one()
    conn.execute(
        text("INSERT INTO api_keys (client_id, prefix, hashed_key) VALUES (:client, :prefix, :hash)"),
        {"client": client_id, "prefix": key[:11], "hash": hashlib.sha256(key.encode()).digest()},
    )
    return key


@pytest.fixture
def processes(
    app: Flask, stores: EmbeddedStores, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Processes]:
    """Starts programs on this run's stores; stops them at the end, and shows their logs when the test failed."""
    running = Processes(stores.database_url, stores.redis_url, tmp_path, stores.undertaker)
    yield running
    running.stop()
    if request.node.stash.get(FAILED, False):
        running.show_logs()


@pytest.fixture
def receiver() -> Iterator[DemoReceiver]:
    """The demo receiver on a free port of this process; `receiver.record` holds what arrived."""
    receiver = DemoReceiver(0)
    thread = threading.Thread(target=receiver.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield receiver
    receiver.stop()
    thread.join()
