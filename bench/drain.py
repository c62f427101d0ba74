"""How soon queued calls are made: Punctual, with every attempt on record, beside what keeps none, and libcurl without any queue."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, text

from app.current import settings
from app.database import autocommit
from app.extensions import db
from bench import fleet
from bench.fleet import Receiver
from bench.peers import installing
from bench.report import ROOT, surroundings, write
from bench.stores import application

WARM_UP = 2000
# Rates of one run, one after the other, by name.
Drain = Callable[[int], float]


class Drains:
    """Each returns the calls a second from the first that came until the last: for Punctual, until the last is recorded."""

    def __init__(self, conn: Connection, receiver: Receiver) -> None:
        self._conn, self._receiver = conn, receiver
        self._client = fleet.client(conn)
        self._socket = settings().redis_url.removeprefix("unix://").partition("?")[0]

    def punctual(self, workers: int) -> Drain:
        def drain(count: int) -> float:
            fleet.empty(self._conn)
            with fleet.punctual_processes(workers):
                fleet.put(self._conn, self._client, self._receiver.url, WARM_UP)
                fleet.wait_until_done(self._conn)
                fleet.empty(self._conn)
                self._receiver.reset()
                fleet.put(self._conn, self._client, self._receiver.url, count)
                fleet.wait_until_done(self._conn)
                seen = self._receiver.wait_for(count)
                last = self._conn.execute(text("SELECT extract(epoch FROM max(finished_at)) FROM jobs")).scalar_one()
                return count / (float(last) - seen["first"])

        return drain

    def celery(self, count: int) -> float:
        environment = {"BENCH_BROKER": f"redis+socket://{self._socket}"}
        worker = [
            installing.PYTHON,
            "-m",
            "celery",
            "-A",
            "bench.peers.celery_app",
            "worker",
            "-c",
            "2",
            "-P",
            "prefork",
        ]
        return self._peer(
            count, [installing.PYTHON, "-m", "bench.peers.celery_app"], [*worker, "-l", "error"], environment
        )

    def dramatiq(self, count: int) -> float:
        environment = {"BENCH_BROKER": f"unix://{self._socket}"}
        worker = [installing.PYTHON, "-m", "dramatiq", "bench.peers.dramatiq_app", "-p", "2", "-t", "8"]
        return self._peer(count, [installing.PYTHON, "-m", "bench.peers.dramatiq_app"], worker, environment)

    def bullmq(self, count: int) -> float:
        program = ["node", installing.NODE / "worker.mjs"]
        return self._peer(count, [*program, "add"], program, {"BENCH_REDIS_SOCKET": self._socket})

    def libcurl(self, count: int) -> float:
        self._receiver.reset()
        subprocess.run([*fleet.program("bench.peers.raw_curl"), self._receiver.url, str(count)], cwd=ROOT, check=True)
        return _rate(self._receiver.wait_for(count))

    def _peer(self, count: int, add: list[Any], worker: list[Any], environment: dict[str, str]) -> float:
        """Queues the calls while nobody works, then starts the worker: how long it takes to start does not count."""
        self._receiver.reset()
        command = [*map(str, add), self._receiver.url, str(count)]
        subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=True, capture_output=True)
        with fleet.running(list(map(str, worker)), **environment):
            return _rate(self._receiver.wait_for(count))


def _rate(seen: dict[str, float]) -> float:
    return seen["count"] / (seen["last"] - seen["first"])


def contestants(drains: Drains) -> dict[str, Drain]:
    found = {
        "Punctual, 1 worker": drains.punctual(1),
        "Punctual, 2 workers": drains.punctual(2),
        "libcurl, no queue": drains.libcurl,
    }
    if installing.has_python():
        found |= {"Celery": drains.celery, "dramatiq": drains.dramatiq}
    if installing.has_node():
        found["BullMQ"] = drains.bullmq
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench ARGS=drain", description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--keep-nothing", action="store_true", help="write no result")
    given = parser.parse_args()
    with fleet.receiver() as receiver, application(), autocommit(db.engine) as conn:
        found: dict[str, list[float]] = {}
        several = contestants(Drains(conn, receiver))
        for run in range(given.runs):
            for name, drain in several.items():
                found.setdefault(name, []).append(round(drain(given.jobs)))
                print(f"run {run + 1}  {name:<22} {found[name][-1]:>7,} a second", flush=True)
        medians = {name: statistics.median(rates) for name, rates in found.items()}
        result = {**surroundings(conn), "jobs": given.jobs, "a_second": medians, "runs": found}
    for name in ("Celery", "dramatiq", "BullMQ"):
        if name not in medians:
            print(f"{name} is not installed (make bench ARGS=peers): left out", file=sys.stderr)
    for name, rate in sorted(medians.items(), key=lambda item: item[1]):
        print(f"{name:<22} {rate:>7,.0f} a second in the median")
    if not given.keep_nothing:
        write("drain", result)
    return 0
