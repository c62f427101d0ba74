"""How the hot path grows: accepting, claiming and recording beside millions of finished jobs, and with long backlogs."""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

from sqlalchemy import Connection, text

from app.current import punctual
from app.database import autocommit
from app.extensions import db
from app.jobs import submit
from app.jobs.claim import CLAIM, MAX_BATCH_BYTES, arrays
from app.jobs.requests import JobRequest
from app.stream import Ticket
from bench import fleet
from bench.fill import fill
from bench.report import RESULTS, surroundings, write
from bench.stores import application

SUBMISSIONS, BATCH = 500, 64
HOST = "http://127.0.0.1:9"


def submit_ms(client: int) -> float:
    """The median of single submissions, in this process, without HTTP."""
    taken = []
    for _ in range(SUBMISSIONS):
        began = time.perf_counter()
        submit(
            punctual(),
            JobRequest(
                client_id=client,
                type="growth",
                callback_url=f"{HOST}/",
                callback_host=HOST,
                payload="1",
                delay_seconds=86_400,
            ),
        )
        taken.append((time.perf_counter() - began) * 1000)
    return round(statistics.median(taken), 3)


def drained(conn: Connection, url: str, count: int) -> dict[str, float]:
    """One worker's rate on a backlog of so many jobs, and its memory at the end."""
    client = fleet.client(conn)
    with fleet.punctual_processes(1) as (_, worker):
        fleet.put(conn, client, url, count)
        fleet.wait_until_done(conn)
        resident = worker.memory_info().rss / (1 << 20)
    took = conn.execute(
        text(
            "SELECT extract(epoch FROM max(finished_at) - min(started_at)) FROM jobs WHERE client_id = :client AND type = 'bench'"
        ),
        {"client": client},
    ).scalar_one()
    conn.execute(text("DELETE FROM jobs WHERE client_id = :client"), {"client": client})
    conn.execute(text("VACUUM ANALYZE jobs"))
    return {"jobs_a_second": round(count / float(took)), "worker_mib": round(resident, 1)}


def explained(conn: Connection, name: str) -> None:
    """Keeps the plan of the claim of a batch beside the figures; the batch is rolled back."""
    ids = conn.execute(text("SELECT id FROM jobs WHERE type = 'growth' LIMIT :most"), {"most": BATCH}).scalars()
    worker = conn.execute(text("SELECT gen_random_uuid()")).scalar_one()
    asked = {**arrays([Ticket(str(each), 0, 0) for each in ids]), "worker": worker, "max_bytes": MAX_BATCH_BYTES}
    plan = conn.execute(
        text(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF, COSTS OFF) {CLAIM.text}"), asked
    ).scalars()
    folder = RESULTS / "explain"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"claim, {name}.txt").write_text("\n".join(plan) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench ARGS=growth", description=__doc__)
    parser.add_argument(
        "--finished", type=int, nargs="+", default=(0, 1_000_000), help="finished jobs, with 3 executions each"
    )
    parser.add_argument("--backlogs", type=int, nargs="+", default=(10_000, 100_000), help="jobs that wait")
    parser.add_argument("--jobs", type=int, default=10_000, help="drained beside the finished ones")
    parser.add_argument("--keep-nothing", action="store_true", help="write no result")
    given = parser.parse_args()
    found: dict[str, Any] = {}
    with fleet.receiver() as receiver:
        for finished in given.finished:
            with application(), autocommit(db.engine) as conn:
                if finished:
                    fill(conn, finished)
                client = fleet.client(conn)
                one: dict[str, Any] = {"submit_ms": submit_ms(client)}
                if not given.keep_nothing:
                    explained(conn, f"{finished} finished")
                conn.execute(text("DELETE FROM jobs WHERE client_id = :client"), {"client": client})
                found[f"{finished:,} finished"] = one | drained(conn, receiver.url, given.jobs)
                print(f"{finished:,} finished: {found[f'{finished:,} finished']}", flush=True)
                result = surroundings(conn)
        with application(), autocommit(db.engine) as conn:
            for backlog in given.backlogs:
                found[f"{backlog:,} waiting"] = drained(conn, receiver.url, backlog)
                print(f"{backlog:,} waiting: {found[f'{backlog:,} waiting']}", flush=True)
    if not given.keep_nothing:
        write("growth", {**result, "found": found})
    return 0
