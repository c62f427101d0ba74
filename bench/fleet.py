"""The processes of a measurement: a receiver, and Punctual's own on the stores of bench.stores."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import Connection, text

from app.clients import get_or_create_client
from app.config import child_environment
from app.current import punctual, settings
from app.queues import ensure
from app.signing import new_secret
from bench.report import ROOT

TIMEOUT_SECONDS = 300.0
# Ids in the order of time, as Punctual makes them, so that the indexes are written to as they are in use.
JOBS = text("""
    INSERT INTO jobs (id, client_id, queue_id, type, payload, payload_bytes, callback_url, callback_host, status, run_at, scheduled_for,
                      first_due_at, max_attempts, timeout_seconds, created_at, updated_at)
    SELECT CAST(lpad(to_hex(CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)), 12, '0') || '7' || substr(md5(random()::text), 1, 3)
                || '8' || substr(md5(random()::text), 1, 15) AS uuid),
           q.client_id, q.id, 'bench', '[1, 2]', 6, CAST(:url AS text) || CAST(:path AS text), :url, CASE WHEN due > now THEN 'scheduled' ELSE 'pending' END,
           due, due, due, 5, 30, now, now
    FROM (SELECT punctual_now() AS now) AS clock, queues q,
      (SELECT CAST(:after AS float8) + random() * CAST(:within AS float8) AS later FROM generate_series(1, :count)) AS each,
      LATERAL (SELECT now + make_interval(secs => later) AS due) AS d
    WHERE q.client_id = :client
""")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(*commands: Sequence[str], **environment: str) -> Iterator[list[psutil.Process]]:
    """Runs programs beside the measurement; what they print is not kept. They are asked to stop at its end."""
    children = [_start(command, environment) for command in commands]
    try:
        yield [psutil.Process(child.pid) for child in children]
    finally:
        for child in children:
            child.terminate()
        for child in children:
            try:
                child.wait(30)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _start(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        list(command), cwd=ROOT, env=child_environment(**environment), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def punctual_environment() -> dict[str, str]:
    own = settings()
    return {
        "DATABASE_URL": own.database_url, "REDIS_URL": own.redis_url, "SECRET_KEY": "of the benchmark", "PUNCTUAL_ENV": "local",
        "RATE_LIMIT_PER_MINUTE": "10000000", "LOG_LEVEL": "error", "PYTHONTZPATH": "", "DATA_DIR": own.data_dir,
    }  # fmt: skip


def program(name: str) -> list[str]:
    return [sys.executable, "-m", name]


class Receiver:
    """Another process that is called; see bench.receiver."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def stats(self) -> dict[str, float]:
        with urllib.request.urlopen(f"{self.url}/stats", timeout=30) as answer:
            found: dict[str, float] = json.load(answer)
        return found

    def reset(self) -> None:
        urllib.request.urlopen(f"{self.url}/reset", timeout=30).close()

    def wait_for(self, count: int) -> dict[str, float]:
        """Waits until so many requests have come."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while (found := self.stats())["count"] < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{found['count']:.0f} of {count} requests came")
            time.sleep(0.1)
        return found


@contextmanager
def receiver(file: Path | None = None) -> Iterator[Receiver]:
    port = free_port()
    more = [] if file is None else [str(file)]
    with running([*program("bench.receiver"), str(port), *more]):
        found = Receiver(port)
        until_it_answers(f"{found.url}/stats")
        yield found


@contextmanager
def punctual_processes(workers: int, schedulers: int = 1, **environment: str) -> Iterator[list[psutil.Process]]:
    """Schedulers first, then workers; they are up and idle when the block begins."""
    commands = [program("scheduler")] * schedulers + [program("worker")] * workers
    with running(*commands, **{**punctual_environment(), **environment}) as found:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not _are_up(workers):
            if time.monotonic() > deadline or any(each.status() == psutil.STATUS_ZOMBIE for each in found):
                raise RuntimeError("the workers did not start")
            time.sleep(0.1)
        yield found


@contextmanager
def web(**environment: str) -> Iterator[tuple[str, psutil.Process]]:
    """gunicorn as it is deployed, with a worker for each core; its address."""
    port = free_port()
    command = [*program("gunicorn"), "-c", "gunicorn.conf.py", "wsgi:app"]
    given = {"WEB_WORKERS": "2", **punctual_environment(), "PORT": str(port), **environment}
    with running(command, **given) as [process]:
        until_it_answers(f"http://127.0.0.1:{port}/healthz")
        yield f"http://127.0.0.1:{port}", process


def _are_up(workers: int) -> bool:
    with punctual().engine.connect() as conn:
        found = conn.execute(text("SELECT count(*) FROM processes WHERE kind = 'worker' AND stopped_at IS NULL"))
        is_led = conn.execute(text("SELECT count(*) FROM leader WHERE expires_at > punctual_now()")).scalar_one()
    return found.scalar_one() >= workers and bool(is_led) and punctual().stream.epoch().startswith("ready:")


def until_it_answers(url: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def client(conn: Connection) -> int:
    """A client whose calls are signed, with its queue."""
    made = get_or_create_client(conn, "bench")
    ensure(conn, made, "default")
    conn.execute(
        text("UPDATE clients SET signing_secret = :secret WHERE id = :id"), {"secret": new_secret(), "id": made}
    )
    return made


def put(
    conn: Connection, client_id: int, url: str, count: int, *, path: str = "/", after: float = 0, within: float = 0
) -> None:
    """Jobs, due `after` seconds from now, or at random `within` so many more; the leader is told to fetch them."""
    conn.execute(
        JOBS, {"client": client_id, "url": url, "path": path, "count": count, "after": after, "within": within}
    )
    punctual().stream.client.delete(punctual().stream.keys.epoch)


def wait_until_done(conn: Connection) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    open_jobs = text("SELECT count(*) FROM jobs WHERE status IN ('pending', 'scheduled', 'running')")
    while left := conn.execute(open_jobs).scalar_one():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{left} jobs are not done")
        time.sleep(0.1)


def empty(conn: Connection) -> None:
    """As a table that autovacuum keeps in order."""
    for statement in (
        "DELETE FROM executions",
        "DELETE FROM jobs",
        "VACUUM ANALYZE jobs",
        "VACUUM ANALYZE executions",
        "CHECKPOINT",
    ):
        conn.execute(text(statement))


def quantiles(values: Sequence[float]) -> dict[str, Any]:
    """p50, p99, the greatest and the least, in ms, of seconds."""
    ordered = sorted(values)
    shares = {"p50_ms": 0.5, "p99_ms": 0.99, "max_ms": 1.0, "min_ms": 0.0}
    at = {name: ordered[min(len(ordered) - 1, int(len(ordered) * share))] for name, share in shares.items()}
    return {**{name: round(seconds * 1000, 1) for name, seconds in at.items()}, "count": len(ordered)}
