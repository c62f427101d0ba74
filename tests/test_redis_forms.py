"""REDIS_URL names a real Cluster of three nodes, or the master that real Sentinels watch: everything works on both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import redis
import requests

from app.child import REDIS_RANK, Child
from app.demo_receiver import DemoReceiver
from app.embedded import EmbeddedStores
from app.embedded_redis import find_server
from app.redis_client import make_redis
from tests.eventually import eventually
from tests.processes import Processes, free_port

SLOTS = 16384


@contextmanager
def server(stores: EmbeddedStores, folder: Path, port: int, *settings: str) -> Iterator[Child]:
    folder.mkdir()
    child = Child(
        f"redis-{port}",
        [str(find_server()), *settings, "--port", str(port), "--bind", "127.0.0.1", "--save", ""],
        env={"PATH": "/usr/bin:/bin"}, log=folder / "log", undertaker=stores.undertaker, rank=REDIS_RANK, cwd=folder,
    )  # fmt: skip
    child.start()
    try:
        with redis.Redis(port=port) as client:
            eventually(lambda: _answers(client))
        yield child
    finally:
        child.stop()


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False


def knows_all(client: redis.Redis) -> bool:
    return client.cluster("INFO")["cluster_state"] == "ok" and len(client.cluster("NODES")) == 3


@pytest.fixture
def cluster_nodes() -> list[Child]:
    """Filled by `cluster`."""
    return []


@pytest.fixture
def cluster(stores: EmbeddedStores, tmp_path: Path, cluster_nodes: list[Child]) -> Iterator[str]:
    """Three masters that share the slots."""
    # Its nodes talk to each other 10,000 ports above.
    ports = [next(port for port in iter(free_port, 0) if port < 55_000) for _ in range(3)]
    with ExitStack() as stack:
        for place, port in enumerate(ports):
            more = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
            cluster_nodes.append(stack.enter_context(server(stores, tmp_path / str(port), port, *more)))
            slots = [slot for slot in range(SLOTS) if slot * 3 // SLOTS == place]
            with redis.Redis(port=port) as client:
                client.execute_command("CLUSTER ADDSLOTS", *slots)
                client.execute_command("CLUSTER MEET", "127.0.0.1", ports[0])
        for port in ports:
            with redis.Redis(port=port) as client:
                eventually(
                    lambda: client.cluster("INFO")["cluster_state"] == "ok" and len(client.cluster("NODES")) == 3
                )
        yield "redis+cluster://" + ",".join(f"127.0.0.1:{port}" for port in ports[:2])


def all_done(session: requests.Session, url: str, count: int) -> bool:
    return len(session.get(f"{url}/v1/jobs?status=done&limit=100", timeout=10).json()) == count


def submit(session: requests.Session, url: str, receiver: DemoReceiver, count: int) -> None:
    kinds = [{}, {"delay_seconds": 0.3}, {"queue": "narrow"}]
    for number in range(count):
        job = {"type": "t", "payload": {}, "callback_url": f"{receiver.url}/hook", **kinds[number % 3]}
        assert session.post(f"{url}/v1/jobs", json=job, timeout=10).status_code == 201


def started(processes: Processes, api_key: str, redis_url: str) -> tuple[requests.Session, str]:
    processes.redis_url = redis_url
    url = processes.web()
    processes.scheduler()
    processes.worker()
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {api_key}"
    assert session.put(f"{url}/v1/queues/narrow", json={"concurrency": 2}, timeout=10).status_code == 201
    return session, url


def test_every_program_works_on_a_cluster(
    processes: Processes, receiver: DemoReceiver, api_key: str, cluster: str
) -> None:
    session, url = started(processes, api_key, cluster)
    submit(session, url, receiver, 30)
    eventually(lambda: all_done(session, url, 30), timeout=30)
    assert session.get(f"{url}/readyz", timeout=10).status_code == 200
    doctor = processes.start("doctor", "-m", "flask", "--app", "wsgi", "doctor")
    eventually(lambda: not doctor.is_running, timeout=30)
    # A throw-away PostgreSQL flushes nothing.
    wrong = [line for line in doctor.log_end(40).splitlines() if line.startswith("FAIL") and "fsync" not in line]
    assert wrong == [], doctor.log_end(40)
    with make_redis(cluster, 5.0) as client:
        assert client.get("{punctual}:epoch").startswith(b"ready:")


def test_a_cluster_that_goes_away_is_passed_by_and_filled_again(
    processes: Processes, receiver: DemoReceiver, api_key: str, cluster: str, cluster_nodes: list[Child]
) -> None:
    session, url = started(processes, api_key, cluster)
    submit(session, url, receiver, 3)
    eventually(lambda: all_done(session, url, 3), timeout=30)
    for node in cluster_nodes:
        node.kill()
    submit(session, url, receiver, 3)
    for node in cluster_nodes:
        node.start()
    eventually(lambda: all_done(session, url, 6), timeout=60)


def test_a_failover_of_a_sentinels_master_loses_nothing(
    stores: EmbeddedStores, tmp_path: Path, processes: Processes, receiver: DemoReceiver, api_key: str
) -> None:
    first, second, watcher = free_port(), free_port(), free_port()
    (tmp_path / "sentinel").mkdir()
    conf = tmp_path / "sentinel" / "sentinel.conf"
    conf.write_text(
        f"""
sentinel monitor main 127.0.0.1 {first} 1
sentinel down-after-milliseconds main 500
sentinel failover-timeout main 3000
"""
    )
    with ExitStack() as stack:
        master = stack.enter_context(server(stores, tmp_path / "first", first))
        stack.enter_context(server(stores, tmp_path / "second", second, "--replicaof", "127.0.0.1", str(first)))
        stack.enter_context(server(stores, tmp_path / "watcher", watcher, str(conf), "--sentinel"))
        with redis.Redis(port=watcher) as sentinel:
            eventually(lambda: len(sentinel.sentinel_slaves("main")) == 1, timeout=20)
        session, url = started(processes, api_key, f"redis+sentinel://127.0.0.1:{watcher}/main")
        submit(session, url, receiver, 12)
        eventually(lambda: all_done(session, url, 12), timeout=30)
        master.kill()
        submit(session, url, receiver, 12)
        eventually(lambda: all_done(session, url, 24), timeout=60)
        with redis.Redis(port=second) as client:
            assert client.info("replication")["role"] == "master"


@pytest.mark.parametrize(
    "url",
    [
        "redis+cluster://",
        "redis+cluster://a:1/name",
        "redis+sentinel://a:1,b:2",
        "redis+cluster://a:x",
        "redis+sentinel://a:1,/m",
    ],
)
def test_a_form_that_names_no_place_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        make_redis(url, 1.0)
