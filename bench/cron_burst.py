"""How long the cron loop takes for many entries that are due in the same minute, with one leader, and what memory it takes."""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from typing import Any

from sqlalchemy import Connection, text

from app.clients import get_or_create_client
from app.current import punctual
from app.database import autocommit
from app.extensions import db
from app.queues import ensure
from bench.report import surroundings, write
from bench.stores import application
from scheduler.cron import Cron

RUNS = 3
MOST_SECONDS = 10.0
ENTRIES = text("""
    INSERT INTO cron_entries (client_id, name, expression, timezone, job_type, payload, callback_url, callback_host, max_attempts, next_run_at,
                              overlap)
    SELECT :client, 'entry ' || n, '* * * * *', 'UTC', 'cron', '{"n": 1}', 'https://h1.example/hook', 'https://h1.example:443', 5,
           date_trunc('minute', punctual_now()), 'allow'
    FROM generate_series(1, :count) AS n
""")


def burst(conn: Connection, entries: int) -> float:
    """Seconds from the first look until every entry has fired."""
    conn.execute(text("DELETE FROM cron_occurrences"))
    conn.execute(text("DELETE FROM jobs"))
    conn.execute(text("DELETE FROM cron_entries"))
    client = get_or_create_client(conn, "bench")
    ensure(conn, client, "default")
    conn.execute(ENTRIES, {"client": client, "count": entries})
    conn.execute(text("ANALYZE cron_entries"))
    cron = Cron(punctual())
    began = time.monotonic()
    while cron.run_once() == 0.0:
        pass
    took = time.monotonic() - began
    fired = conn.execute(text("SELECT count(DISTINCT cron_entry_id) FROM jobs")).scalar_one()
    assert fired == entries, f"{fired} of {entries} have fired"
    return took


def run(entries: int) -> dict[str, Any]:
    with application(), autocommit(db.engine) as conn:
        taken, peaks = [], []
        for _ in range(RUNS):
            taken.append(burst(conn, entries))
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
            print(
                f"{entries:,} entries: {taken[-1]:.2f} s, {entries / taken[-1]:,.0f} a second, {peaks[-1]:.0f} MiB at most",
                flush=True,
            )
        return {
            **surroundings(conn),
            "entries": entries,
            "median_seconds": round(statistics.median(taken), 2),
            "seconds": [round(seconds, 2) for seconds in taken],
            "growth_after_first_mib": round(peaks[-1] - peaks[0], 1),
        }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench cron_burst", description=__doc__)
    parser.add_argument("--entries", type=int, default=10_000)
    parser.add_argument("--keep-nothing", action="store_true", help="leave the results in bench/results as they are")
    given = parser.parse_args()
    found = run(given.entries)
    if not given.keep_nothing:
        write("cron_burst", found)
    return int(found["median_seconds"] > MOST_SECONDS)
