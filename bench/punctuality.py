"""How punctual jobs are: thousands due at random instants within a minute, and thousands at one instant."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

from app.database import autocommit
from app.extensions import db
from bench import fleet
from bench.report import surroundings, write
from bench.stores import application

AHEAD_SECONDS = 5.0


def lags(conn: Connection, arrivals: Path) -> list[float]:
    """Seconds from when each job was due to its request's first byte at the receiver; both clocks are this machine's."""
    due = {
        str(row.id): float(row.at)
        for row in conn.execute(text("SELECT id, extract(epoch FROM run_at) AS at FROM jobs"))
    }
    arrived = dict(line.split() for line in arrivals.read_text().splitlines() if line[0] != " ")
    return [float(at) - due[job_id] for job_id, at in arrived.items() if job_id in due]


def measure(conn: Connection, count: int, within: float, workers: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        arrivals = Path(folder) / "arrivals"
        with fleet.receiver(arrivals) as receiver, fleet.punctual_processes(workers):
            fleet.empty(conn)
            fleet.put(conn, fleet.client(conn), receiver.url, count, after=AHEAD_SECONDS, within=within)
            fleet.wait_until_done(conn)
            receiver.wait_for(count)
            found = lags(conn, arrivals)
    assert len(found) == count, f"{len(found)} of {count} arrived"
    return fleet.quantiles(found)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench ARGS=punctuality", description=__doc__)
    parser.add_argument("--spread", type=int, default=5000, help="jobs within --seconds")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--at-once", type=int, default=2000, help="jobs due at one instant")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--keep-nothing", action="store_true", help="write no result")
    given = parser.parse_args()
    with application(), autocommit(db.engine) as conn:
        found = {
            f"{given.spread:,} within {given.seconds:g} s": measure(conn, given.spread, given.seconds, given.workers),
            f"{given.at_once:,} at one instant": measure(conn, given.at_once, 0.0, given.workers),
        }
        result = {**surroundings(conn), "workers": given.workers, "lags": found}
    for name, values in found.items():
        print(
            f"{name:<24} p50 {values['p50_ms']} ms, p99 {values['p99_ms']} ms, max {values['max_ms']} ms, least {values['min_ms']} ms"
        )
    if not given.keep_nothing:
        write("punctuality", result)
    return 1 if any(values["min_ms"] < 0 for values in found.values()) else 0
