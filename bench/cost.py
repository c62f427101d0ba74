"""What a thousand jobs cost: CPU of each program, statements and commands, bytes kept; and the memory of each, idle and full."""

from __future__ import annotations

import argparse
import time
from typing import Any

import psutil
from sqlalchemy import Connection, text

from app.current import punctual
from app.database import autocommit
from app.extensions import db
from bench import fleet
from bench.report import surroundings, write
from bench.stores import application

TRANSACTIONS = text("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()")
BYTES = text("SELECT pg_total_relation_size('jobs') + pg_total_relation_size('executions')")
SETTLE_SECONDS = 1.5


def cpu(process: psutil.Process) -> float:
    return sum(sum(each.cpu_times()[:2]) for each in [process, *process.children(recursive=True)])


def servers(name: str) -> list[psutil.Process]:
    """The stores that this measurement started."""
    return [each for each in psutil.Process().children(recursive=True) if each.name().startswith(name)]


def commands() -> int:
    found: Any = punctual().stream.client.info("stats")
    return int(found["total_commands_processed"])


def per_thousand(conn: Connection, count: int) -> dict[str, Any]:
    """The cost of jobs that wait, are called and recorded, by one scheduler and one worker."""
    fleet.empty(conn)
    with fleet.receiver() as receiver, fleet.punctual_processes(1) as (scheduler, worker):
        client = fleet.client(conn)
        time.sleep(SETTLE_SECONDS)
        watched = {
            "worker": [worker],
            "scheduler": [scheduler],
            "PostgreSQL": servers("postgres"),
            "Redis": servers("redis"),
        }
        kept = int(conn.execute(BYTES).scalar_one())
        before = {name: sum(map(cpu, each)) for name, each in watched.items()}
        asked, done = commands(), int(conn.execute(TRANSACTIONS).scalar_one())
        fleet.put(conn, client, receiver.url, count)
        fleet.wait_until_done(conn)
        time.sleep(SETTLE_SECONDS)
        spent = {name: sum(map(cpu, each)) - before[name] for name, each in watched.items()}
        found = {f"{name}: CPU seconds": round(seconds * 1000 / count, 3) for name, seconds in spent.items()}
        found["PostgreSQL: transactions"] = round(
            (int(conn.execute(TRANSACTIONS).scalar_one()) - done) * 1000 / count, 1
        )
        found["Redis: commands"] = round((commands() - asked) * 1000 / count, 1)
        found["PostgreSQL: bytes a job"] = round((int(conn.execute(BYTES).scalar_one()) - kept) / count)
    return found


def mib(process: psutil.Process) -> float:
    return round(process.memory_info().rss / (1 << 20), 1)


def memory(conn: Connection, in_flight: int) -> dict[str, Any]:
    """Resident MiB of a worker, idle and with so many slow calls under way in its one process."""
    fleet.empty(conn)
    # One host may take half of a worker's places, and there is one receiver.
    places = {"WORKER_CONCURRENCY": str(2 * in_flight)}
    with fleet.receiver() as receiver, fleet.punctual_processes(1, **places) as (scheduler, worker):
        idle = {"worker, idle": mib(worker), "scheduler, idle": mib(scheduler)}
        fleet.put(conn, fleet.client(conn), receiver.url, in_flight, path="/?ms=10000")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and receiver.stats()["count"] < in_flight:
            time.sleep(0.2)
        reached = int(receiver.stats()["count"])
        most = mib(worker)
        fleet.wait_until_done(conn)
        took = conn.execute(
            text("SELECT extract(epoch FROM max(finished_at) - min(started_at)) FROM jobs")
        ).scalar_one()
    return {
        **idle,
        f"worker, {reached:,} calls of 10 s begun": most,
        "seconds until all were recorded": round(float(took), 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench ARGS=cost", description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--in-flight", type=int, nargs="+", default=(1000, 5000))
    parser.add_argument("--keep-nothing", action="store_true", help="write no result")
    given = parser.parse_args()
    with application(), autocommit(db.engine) as conn:
        found = {"per thousand jobs": per_thousand(conn, given.jobs)}
        for in_flight in given.in_flight:
            found[f"memory in MiB, {in_flight:,} in flight"] = memory(conn, in_flight)
        result = {**surroundings(conn), "jobs": given.jobs, "found": found}
    for part, values in found.items():
        print(part)
        for name, value in values.items():
            print(f"  {name:<40} {value}")
    if not given.keep_nothing:
        write("cost", result)
    return 0
