"""How long each page of the dashboard, and each list of the API, takes with many jobs in the tables.

The application is asked in this process, without a server between: what a user waits for beside it is the network.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

from flask import Flask
from sqlalchemy import Connection, text

from app import users
from app.api_keys import create_api_key
from app.extensions import db
from bench.fill import fill
from bench.report import surroundings, write
from bench.stores import application

RUNS = 7
MOST_MS = 300.0
PASSWORD = "of the benchmark only"


def addresses(conn: Connection) -> dict[str, str]:
    """What is asked for, by name."""
    middle = conn.execute(
        text("SELECT id FROM jobs ORDER BY id OFFSET (SELECT count(*) / 2 FROM jobs) LIMIT 1")
    ).scalar_one()
    dead = conn.execute(
        text(
            "SELECT id FROM jobs WHERE status = 'dead' AND client_id = (SELECT min(id) FROM clients) ORDER BY id DESC LIMIT 1"
        )
    ).scalar_one()
    entry = conn.execute(text("SELECT min(id) FROM cron_entries")).scalar_one()
    return {
        "overview": "/",
        "jobs": "/jobs/",
        "jobs, deep page": f"/jobs/?after={middle}",
        "jobs by status done": "/jobs/?status=done",
        "jobs by status dead": "/jobs/?status=dead",
        "jobs by two statuses": "/jobs/?status=dead&status=cancelled",
        "jobs by type": "/jobs/?type=job.type.3",
        "jobs by client": "/jobs/?client=3",
        "jobs by host": "/jobs/?host=h3.example",
        "jobs by type, status and client": "/jobs/?type=job.type.3&status=dead&client=3",
        "jobs by error class": "/jobs/?error=timeout",
        "jobs of an hour": "/jobs/?since=1h",
        "jobs by beginning of an id": f"/jobs/?q={str(middle)[:13]}",
        "jobs by idempotency key": "/jobs/?q=key-5000",
        "jobs that nothing matches": "/jobs/?type=nothing",
        "a job": f"/jobs/{dead}",
        "dead letters": "/dead-letters/",
        "executions": "/executions/",
        "executions, slow first": "/executions/?order=slowest",
        "executions by outcome": "/executions/?status=failed",
        "executions by host": "/executions/?host=h3.example",
        "executions by status code": "/executions/?code=500",
        "cron entries": "/cron/",
        "a cron entry": f"/cron/{entry}",
        "processes": "/processes/",
        "clients": "/clients/",
        "users": "/users/",
        "audit log": "/audit/",
        "API: jobs": "/v1/jobs?limit=100",
        "API: jobs by status": "/v1/jobs?status=dead&limit=100",
        "API: jobs, cursor": f"/v1/jobs?limit=100&cursor={middle}",
        "API: dead letters": "/v1/dead-letters?limit=100",
        "API: a job": f"/v1/jobs/{dead}",
        "API: its executions": f"/v1/jobs/{dead}/executions",
        "API: cron jobs": "/v1/cron-jobs",
        "metrics": "/metrics",
    }


def measure(ask: Callable[[str], Any], address: str) -> tuple[float, float]:
    """(median, worst) in ms of RUNS answers after one to warm up."""
    taken = []
    for run in range(RUNS + 1):
        began = time.perf_counter()
        answer = ask(address)
        if run:
            taken.append((time.perf_counter() - began) * 1000)
        assert answer.status_code == 200, (address, answer.status_code, answer.text[:300])
    return statistics.median(taken), max(taken)


def asker(app: Flask) -> Callable[[str], Any]:
    """Asks as an administrator with a session, or, under /v1, with a key."""
    users.create_user(db.engine, "bench", "admin", PASSWORD)
    client = app.test_client()
    page = client.get("/sign-in").text
    token = page.partition('name="csrf_token"')[2].partition('value="')[2].partition('"')[0]
    answer = client.post("/sign-in", data={"csrf_token": token, "name": "bench", "password": PASSWORD})
    assert answer.status_code == 302, answer.text[:300]
    with db.engine.connect() as conn:
        name = conn.execute(
            text("SELECT client_name FROM (SELECT name AS client_name, id FROM clients) c ORDER BY id LIMIT 1")
        ).scalar_one()
    key = create_api_key(db.engine, name).key
    return lambda address: client.get(
        address, headers={"Authorization": f"Bearer {key}"} if address.startswith("/v1") else {}
    )


def run(jobs: int) -> dict[str, Any]:
    """Fills, asks for everything and returns the figures."""
    with application() as app, db.engine.connect() as conn:
        conn = conn.execution_options(isolation_level="AUTOCOMMIT")
        filled = fill(conn, jobs)
        ask, rows = asker(app), {}
        for name, address in addresses(conn).items():
            median, worst = measure(ask, address)
            rows[name] = {"median_ms": round(median, 1), "worst_ms": round(worst, 1)}
            print(
                f"{name:<36} {median:8.1f} ms   worst {worst:8.1f} ms{'   TOO SLOW' if median > MOST_MS else ''}",
                flush=True,
            )
        counts = {
            table: conn.execute(text(f"SELECT count(*) FROM {table}")).scalar_one() for table in ("jobs", "executions")
        }
        return {**surroundings(conn), **counts, "filled_in_seconds": round(filled), "runs": RUNS, "pages": rows}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench pages", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--keep-nothing", action="store_true", help="leave the results in bench/results as they are")
    given = parser.parse_args()
    found = run(given.jobs)
    if not given.keep_nothing:
        write("pages", found)
    return int(any(row["median_ms"] > MOST_MS for row in found["pages"].values()))
