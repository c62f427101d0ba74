"""Behind PgBouncer in transaction mode, where each statement may meet another session: everything works, and nothing is prepared."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import requests
from sqlalchemy import Engine, make_url, text

from app.child import Child
from app.database import make_engine, prepared
from app.demo_receiver import DemoReceiver
from app.embedded import EmbeddedStores
from tests.eventually import eventually
from tests.processes import Processes, free_port

SESSIONS = 4


@pytest.fixture
def bouncer(stores: EmbeddedStores, tmp_path: Path) -> Iterator[str]:
    """The address of a real PgBouncer in front of this run's PostgreSQL."""
    program = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
    if program is None:
        pytest.skip("pgbouncer is not installed (.ci/run installs it)")
    assert stores.postgres is not None
    home = stores.postgres.home
    url, port = make_url(stores.database_url), free_port()
    folder = home.base / "pgbouncer"
    folder.mkdir(mode=0o755, exist_ok=True)
    ini = folder / "pgbouncer.ini"
    ini.write_text(
        f"""
[databases]
{url.database} = host={url.query["host"]} user={url.username} dbname={url.database}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {SESSIONS}
max_client_conn = 500
ignore_startup_parameters = options,extra_float_digits
"""
    )
    ini.chmod(0o644)
    child = Child(
        "pgbouncer",
        [program, str(ini)],
        env={},
        log=tmp_path / "pgbouncer.log",
        undertaker=stores.undertaker,
        user=home.uid,
    )
    child.start()
    address = f"postgresql://{url.username}@127.0.0.1:{port}/{url.database}"

    def answers() -> bool:
        assert child.is_running, child.log_end()
        try:
            psycopg.connect(address, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    eventually(answers)
    yield address
    child.stop()


def statements_kept(engine: Engine) -> int:
    """How many statements the one session holds after a few that are run through `prepared`."""
    for _ in range(3):
        with prepared(engine) as conn:
            conn.execute(text("SELECT 1 + :one"), {"one": 1})
    with prepared(engine) as conn:
        return int(conn.execute(text("SELECT count(*) FROM pg_prepared_statements")).scalar_one())


def test_statements_are_kept_prepared_only_where_the_session_is_ours(stores: EmbeddedStores, bouncer: str) -> None:
    direct, pooled = make_engine(stores.database_url, 1), make_engine(bouncer, 1)
    try:
        assert statements_kept(direct) > 0
        assert statements_kept(pooled) == 0
    finally:
        direct.dispose()
        pooled.dispose()


def test_every_program_works_behind_it(
    processes: Processes, receiver: DemoReceiver, api_key: str, bouncer: str
) -> None:
    processes.database_url = bouncer
    url = processes.web()
    processes.scheduler()
    processes.worker()
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {api_key}"
    assert session.put(f"{url}/v1/queues/narrow", json={"concurrency": 2}, timeout=10).status_code == 201
    job = {"type": "t", "payload": {}, "callback_url": f"{receiver.url}/hook"}
    kinds = [{}, {"delay_seconds": 0.5}, {"queue": "narrow"}]
    batch = session.post(f"{url}/v1/jobs/batch", json=[{**job, **kinds[n % 3]} for n in range(60)], timeout=10).json()
    assert {each["result"] for each in batch} == {"created"}
    for number in range(20):
        made = session.post(f"{url}/v1/jobs", json={**job, "idempotency_key": f"k{number % 10}"}, timeout=10)
        assert made.status_code == (201 if number < 10 else 200), made.text
    eventually(lambda: len(session.get(f"{url}/v1/jobs?status=done&limit=100", timeout=10).json()) == 70, timeout=30)
