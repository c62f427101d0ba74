"""What is broken, and mended again. Each fault blocks until it is over; `scale` shortens the long ones."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import redis

from tests.chaos import names
from tests.chaos.fleet import Fleet

Fault = Callable[[Fleet, random.Random, float], None]
FAULTS: dict[str, Fault] = {}
# What an operator does with care: no request may fail, no attempt may be lost.
ORDERLY = frozenset({"rolling_restart", "reload_web"})


def fault(function: Fault) -> Fault:
    FAULTS[function.__name__] = function
    return function


def _pick(fleet: Fleet, rand: random.Random, kind: str) -> int:
    pid = fleet.children[rand.choice(fleet.names(kind))].pid
    assert pid is not None
    return pid


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        pass


@fault
def kill_worker(fleet: Fleet, rand: random.Random, scale: float) -> None:
    _signal(_pick(fleet, rand, "worker"), signal.SIGKILL)


@fault
def kill_scheduler(fleet: Fleet, rand: random.Random, scale: float) -> None:
    _signal(_pick(fleet, rand, "scheduler"), signal.SIGKILL)


@fault
def kill_web(fleet: Fleet, rand: random.Random, scale: float) -> None:
    _signal(_pick(fleet, rand, "web"), signal.SIGKILL)


@fault
def stop_worker(fleet: Fleet, rand: random.Random, scale: float) -> None:
    """Long enough to be declared lost: its beats stop for more than 12 s, unless scaled down."""
    _pause(_pick(fleet, rand, "worker"), 16 * scale)


@fault
def stop_scheduler(fleet: Fleet, rand: random.Random, scale: float) -> None:
    """Longer than a leader's lease."""
    _pause(_pick(fleet, rand, "scheduler"), 8 * scale)


@fault
def stop_web(fleet: Fleet, rand: random.Random, scale: float) -> None:
    _pause(_pick(fleet, rand, "web"), 6 * scale)


def _pause(pid: int, seconds: float) -> None:
    _signal(pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        _signal(pid, signal.SIGCONT)


@fault
def rolling_restart(fleet: Fleet, rand: random.Random, scale: float) -> None:
    for name in (*fleet.names("worker"), *fleet.names("scheduler")):
        fleet.restart(name)


@fault
def reload_web(fleet: Fleet, rand: random.Random, scale: float) -> None:
    for name in fleet.names("web"):
        pid = fleet.children[name].pid
        assert pid is not None
        os.kill(pid, signal.SIGHUP)
        time.sleep(1)


# Redis


@fault
def redis_flush(fleet: Fleet, rand: random.Random, scale: float) -> None:
    with _redis(fleet) as client:
        client.flushall()


@fault
def redis_restart(fleet: Fleet, rand: random.Random, scale: float) -> None:
    assert fleet.stores.redis is not None
    fleet.stores.redis.child.stop()
    time.sleep(scale)
    fleet.stores.redis.start()


@fault
def redis_restart_empty(fleet: Fleet, rand: random.Random, scale: float) -> None:
    embedded = fleet.stores.redis
    assert embedded is not None
    embedded.child.kill()
    for left in embedded.data.iterdir():
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    embedded.start()


@fault
def redis_frozen(fleet: Fleet, rand: random.Random, scale: float) -> None:
    assert fleet.stores.redis is not None and fleet.stores.redis.child.pid is not None
    _pause(fleet.stores.redis.child.pid, 20 * scale)


@fault
def redis_out_of_memory(fleet: Fleet, rand: random.Random, scale: float) -> None:
    with _redis(fleet) as client:
        client.config_set("maxmemory", "1")
        try:
            time.sleep(5 * scale)
        finally:
            client.config_set("maxmemory", "0")


@fault
def redis_clients_killed(fleet: Fleet, rand: random.Random, scale: float) -> None:
    with _redis(fleet) as client:
        client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


@fault
def redis_read_only(fleet: Fleet, rand: random.Random, scale: float) -> None:
    """A replica of nobody: every write is refused as READONLY."""
    with _redis(fleet) as client:
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
        try:
            time.sleep(4 * scale)
        finally:
            client.execute_command("REPLICAOF", "NO", "ONE")


# PostgreSQL


@fault
def postgres_restart(fleet: Fleet, rand: random.Random, scale: float) -> None:
    _postgres_away(fleet, 0.0)


@fault
def postgres_stopped(fleet: Fleet, rand: random.Random, scale: float) -> None:
    _postgres_away(fleet, 30 * scale)


@fault
def postgres_crash(fleet: Fleet, rand: random.Random, scale: float) -> None:
    assert fleet.stores.postgres is not None
    fleet.stores.postgres.child.kill()
    fleet.stores.postgres.start()


def _postgres_away(fleet: Fleet, seconds: float) -> None:
    assert fleet.stores.postgres is not None
    fleet.stores.postgres.child.stop()
    time.sleep(seconds)
    fleet.stores.postgres.start()


@fault
def postgres_connections_killed(fleet: Fleet, rand: random.Random, scale: float) -> None:
    with _postgres(fleet) as conn:
        conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )


@fault
def postgres_deadlock(fleet: Fleet, rand: random.Random, scale: float) -> None:
    """Rows are held in the order of falling ids, against everybody's order, while others want them."""
    with _postgres(fleet) as conn:
        conn.autocommit = False
        for _ in range(int(10 * scale) + 1):
            conn.execute("SET LOCAL statement_timeout = '2s'")
            try:
                rows = conn.execute(
                    "SELECT id FROM jobs WHERE status IN ('pending', 'scheduled', 'running') ORDER BY id DESC LIMIT 20"
                ).fetchall()
                for (job_id,) in rows:
                    conn.execute("SELECT FROM jobs WHERE id = %s FOR UPDATE", (job_id,))
                time.sleep(0.1)
            except psycopg.Error:
                pass
            conn.rollback()


@fault
def postgres_refuses_writes(fleet: Fleet, rand: random.Random, scale: float) -> None:
    """As with a full disk: reading goes on, every write fails."""
    with _postgres(fleet) as conn:
        conn.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        conn.execute("SELECT pg_reload_conf()")
        try:
            time.sleep(5 * scale)
        finally:
            conn.execute("SET default_transaction_read_only = off")
            conn.execute("ALTER SYSTEM RESET default_transaction_read_only")
            conn.execute("SELECT pg_reload_conf()")


# The network


@fault
def network_cut(fleet: Fleet, rand: random.Random, scale: float) -> None:
    """One worker and one scheduler lose both stores."""
    with _network(fleet):
        fleet.postgres_proxy.cut()
        fleet.redis_proxy.cut()
        time.sleep(15 * scale)


@fault
def network_slow(fleet: Fleet, rand: random.Random, scale: float) -> None:
    with _network(fleet):
        fleet.postgres_proxy.delay_seconds = fleet.redis_proxy.delay_seconds = 0.2
        time.sleep(6 * scale)


@fault
def network_half_closed(fleet: Fleet, rand: random.Random, scale: float) -> None:
    with _network(fleet):
        fleet.postgres_proxy.half_close()
        fleet.redis_proxy.half_close()


@fault
def names_refused(fleet: Fleet, rand: random.Random, scale: float) -> None:
    _names(fleet, names.REFUSED, 4 * scale)


@fault
def names_silent(fleet: Fleet, rand: random.Random, scale: float) -> None:
    _names(fleet, names.SILENT, 8 * scale)


def _names(fleet: Fleet, state: str, seconds: float) -> None:
    """The resolver of every worker's host."""
    fleet.names_file.write_text(state)
    try:
        time.sleep(seconds)
    finally:
        fleet.names_file.unlink(missing_ok=True)


@contextmanager
def _network(fleet: Fleet) -> Iterator[None]:
    try:
        yield
    finally:
        fleet.postgres_proxy.mend()
        fleet.redis_proxy.mend()


@contextmanager
def _redis(fleet: Fleet) -> Iterator[redis.Redis]:
    """The server may be away for another fault's sake: then there is nothing to break."""
    with fleet.redis() as client:
        try:
            yield client
        except redis.RedisError as error:
            print(f"  (not done: {error})")


@contextmanager
def _postgres(fleet: Fleet) -> Iterator[psycopg.Connection]:
    try:
        with fleet.postgres() as conn:
            yield conn
    except psycopg.Error as error:
        print(f"  (not done: {str(error).splitlines()[0]})")
