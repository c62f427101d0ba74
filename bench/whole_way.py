"""The whole way: jobs submitted one by one at a steady rate through gunicorn, until the first byte of each call at the receiver."""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

from app.api_keys import create_api_key
from app.database import autocommit
from app.extensions import db
from bench import fleet
from bench.report import ROOT, surroundings, write
from bench.stores import application

RATES, CALLBACK_MS = (100, 300, 600), (0, 50, 2000)
CONNECTIONS = 16


def measure(conn: Connection, key: str, a_second: int, callback_ms: int, seconds: float) -> dict[str, Any]:
    """Start lag of each job: from when it was accepted, by PostgreSQL, to its request's first byte."""
    fleet.empty(conn)
    with tempfile.TemporaryDirectory() as folder:
        arrivals = Path(folder) / "arrivals"
        with fleet.receiver(arrivals) as receiver, fleet.punctual_processes(1), fleet.web() as (url, _):
            job = {"type": "bench", "payload": [1, 2], "callback_url": f"{receiver.url}/?ms={callback_ms}"}
            asked = {
                "url": f"{url}/v1/jobs", "headers": {"Authorization": f"Bearer {key}"}, "bodies": [json.dumps(job)],
                "connections": CONNECTIONS, "a_second": a_second, "seconds": seconds,
            }  # fmt: skip
            told = subprocess.run(
                fleet.program("bench.callers"),
                cwd=ROOT,
                input=json.dumps(asked),
                capture_output=True,
                text=True,
                check=True,
            )
            sent = json.loads(told.stdout)
            assert set(sent["answers"]) == {"201"}, sent["answers"]
            fleet.wait_until_done(conn)
            receiver.stats()
            made = {
                str(row.id): float(row.at)
                for row in conn.execute(text("SELECT id, extract(epoch FROM created_at) AS at FROM jobs"))
            }
            arrived = dict(line.split() for line in arrivals.read_text().splitlines() if line[0] != " ")
    lags = [float(at) - made[job_id] for job_id, at in arrived.items()]
    return {
        "start_lag": fleet.quantiles(lags),
        "submit": fleet.quantiles(sent["took"]),
        "reached_a_second": round(len(lags) / sent["seconds"]),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench ARGS=whole_way", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rates", type=int, nargs="+", default=RATES)
    parser.add_argument("--callback-ms", type=int, nargs="+", default=CALLBACK_MS)
    parser.add_argument("--keep-nothing", action="store_true", help="write no result")
    given = parser.parse_args()
    with application(), autocommit(db.engine) as conn:
        fleet.client(conn)
        key, found = create_api_key(db.engine, "bench").key, {}
        for a_second in given.rates:
            for callback_ms in given.callback_ms:
                name = f"{a_second} a second, callbacks of {callback_ms} ms"
                found[name] = measure(conn, key, a_second, callback_ms, given.seconds)
                lag = found[name]["start_lag"]
                print(
                    f"{name:<36} start lag p50 {lag['p50_ms']} ms, p99 {lag['p99_ms']} ms, max {lag['max_ms']} ms",
                    flush=True,
                )
        result = {**surroundings(conn), "seconds": given.seconds, "found": found}
    if not given.keep_nothing:
        write("whole_way", result)
    return 0
