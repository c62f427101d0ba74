"""How fast jobs are accepted: one by one over 1, 8 and 32 connections, and in batches, beside a bare route on the same stores."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, text

from app.api_keys import create_api_key
from app.database import autocommit
from app.extensions import db
from bench import fleet
from bench.report import ROOT, surroundings, write
from bench.stores import application

CONNECTIONS = (1, 8, 32)
BATCHES = (100, 1000)
JOB = {"type": "bench", "payload": [1, 2], "callback_url": "http://127.0.0.1:9/hook", "run_at": "2099-01-01T00:00:00Z"}


def call(url: str, key: str, body: str, connections: int, count: int) -> dict[str, Any]:
    """Sends `count` requests; the rate a second, and how long they took. Raises RuntimeError when one was refused."""
    asked = {
        "url": url,
        "headers": {"Authorization": f"Bearer {key}"},
        "bodies": [body],
        "connections": connections,
        "count": count,
    }
    told = subprocess.run(
        fleet.program("bench.callers"), cwd=ROOT, input=json.dumps(asked), capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(told.stdout)
    if set(found["answers"]) - {"200", "201"}:
        raise RuntimeError(f"refused: {found['answers']} {found['last']}")
    return {"a_second": count / found["seconds"], **fleet.quantiles(found["took"])}


def medians(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        name: round(statistics.median(run[name] for run in runs), 1)
        for name in runs[0]
        if name not in ("count", "min_ms")
    }


def measure(conn: Connection, requests: int, runs: int) -> dict[str, Any]:
    fleet.client(conn)
    key = create_api_key(db.engine, "bench").key
    conn.execute(text("CREATE TABLE bench_bare (id uuid PRIMARY KEY, payload text)"))
    bare = [*fleet.program("gunicorn"), "-c", "gunicorn.conf.py", "bench.bare:app"]
    environment, port = fleet.punctual_environment(), fleet.free_port()
    found: dict[str, list[dict[str, Any]]] = {}
    with fleet.web() as (url, _), fleet.running(bare, **{**environment, "PORT": str(port), "WEB_WORKERS": "2"}):
        fleet.until_it_answers(f"http://127.0.0.1:{port}/healthz")
        bare_url, single = f"http://127.0.0.1:{port}", json.dumps(JOB)
        for address in (url, bare_url):
            call(f"{address}/v1/jobs", key, single, 8, min(requests, 500))
        for _ in range(runs):
            for connections in CONNECTIONS:
                for name, address in (("single", url), ("bare", bare_url)):
                    taken = call(f"{address}/v1/jobs", key, single, connections, requests)
                    found.setdefault(f"{name}, {connections} connections", []).append(taken)
            for size in BATCHES:
                body, count = json.dumps([JOB] * size), max(2, requests * 2 // size)
                taken = call(f"{url}/v1/jobs/batch", key, body, 2, count)
                found.setdefault(f"batches of {size}", []).append({**taken, "a_second": taken["a_second"] * size})
    return {name: medians(each) for name, each in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench ARGS=submit", description=__doc__)
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--keep-nothing", action="store_true", help="write no result")
    given = parser.parse_args()
    with application(), autocommit(db.engine) as conn:
        found = measure(conn, given.requests, given.runs)
        result = {**surroundings(conn), "requests": given.requests, "medians": found}
    for name, values in found.items():
        print(
            f"{name:<24} {values['a_second']:>8,.0f} jobs a second, p50 {values['p50_ms']} ms, p99 {values['p99_ms']} ms"
        )
    for connections in CONNECTIONS:
        share = (
            found[f"single, {connections} connections"]["a_second"]
            / found[f"bare, {connections} connections"]["a_second"]
        )
        print(f"{connections} connections: {share:.2f} of the bare route's rate")
    if not given.keep_nothing:
        write("submit", result)
    return 0
