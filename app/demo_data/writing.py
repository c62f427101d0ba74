"""Puts made-up jobs, attempts and the minutes' counts into their tables by COPY, as the recorder would have left them.

The one writer of `jobs.status` outside app.jobs: it changes no row that is there, and runs on a database of `make demo` only.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text

from app.callback import DEFAULT_QUEUE
from app.demo_data.cron_history import Past, Planned
from app.demo_data.history import Attempt, Made
from app.jobs.stats import BUCKETS, bucket
from app.queues import ensure

EXECUTION = (
    "job_id", "queue_generation", "attempt", "number", "status", "due_at", "started_at", "finished_at", "status_code",
    "error_class", "error", "timings", "response_headers", "response_body", "worker",
)  # fmt: skip
MINUTE = ("minute", "client_id", "outcome", "count", "start_lag_buckets", "callback_time_buckets")
UPDATE_ENTRY = text("""
    UPDATE cron_entries SET next_run_at = :next_run_at, last_run_at = :last_run_at, last_job_id = :last_job_id,
      created_at = :created_at, updated_at = :updated_at, paused_at = :paused_at,
      enabled = enabled AND CAST(:disabled_reason AS text) IS NULL,
      disabled_reason = :disabled_reason, timezone = coalesce(:lost_zone, timezone)
    WHERE id = :id
""")


def write_jobs(conn: Connection, made: Sequence[Made]) -> None:
    """Jobs, their executions, and what both count in minute_stats."""
    names = [*made[0].job, "queue_id"]
    clients = {job.job["client_id"] for job in made}
    queues = {client_id: ensure(conn, client_id, DEFAULT_QUEUE).id for client_id in clients}
    rows = ([*job.job.values(), queues[job.job["client_id"]]] for job in made)
    _copy(conn, f"COPY jobs ({', '.join(names)}) FROM STDIN", rows)
    executions = (_execution(job, attempt) for job in made for attempt in job.attempts)
    _copy(conn, f"COPY executions ({', '.join(EXECUTION)}) FROM STDIN", executions)
    _copy(conn, f"COPY minute_stats ({', '.join(MINUTE)}) FROM STDIN", _minutes(made))


def update_entry(
    conn: Connection, entry: Planned, past: Past, *, created_at: datetime, updated_at: datetime, paused_at: datetime | None,
    disabled_reason: str | None,
) -> None:  # fmt: skip
    """Gives an entry its past: since when it is there, when it last ran, and what ended that."""
    values: dict[str, Any] = {
        "id": entry.id,
        "next_run_at": None if disabled_reason else past.next_run_at,
        "last_run_at": past.last_run_at,
        "last_job_id": past.jobs[-1].job["id"] if past.jobs else None,
        "created_at": created_at,
        "updated_at": updated_at,
        "paused_at": paused_at,
        "disabled_reason": disabled_reason,
        "lost_zone": entry.sketch.lost_zone,
    }
    conn.execute(UPDATE_ENTRY, values)


def _copy(conn: Connection, statement: str, rows: Iterable[Sequence[Any]]) -> None:
    driver: Any = conn.connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)


def _execution(made: Made, attempt: Attempt) -> Sequence[Any]:
    answer = attempt.answer
    return (
        made.job["id"],
        0,
        attempt.number,
        attempt.number,
        answer.execution_status,
        attempt.due_at,
        answer.started_at,
        answer.finished_at,
        answer.status_code,
        answer.error_class,
        answer.error,
        json.dumps(answer.timings),
        json.dumps(answer.response_headers),
        answer.response_body,
        attempt.worker,
    )


def _minutes(made: Iterable[Made]) -> Iterable[Sequence[Any]]:
    """minute_stats as recording the attempts one by one would have left it."""
    lags: dict[tuple[datetime, int, str], list[int]] = defaultdict(lambda: [0] * BUCKETS)
    times: dict[tuple[datetime, int, str], list[int]] = defaultdict(lambda: [0] * BUCKETS)
    for job in made:
        for attempt in job.attempts:
            answer = attempt.answer
            minute = answer.finished_at.replace(second=0, microsecond=0)
            key = (minute, job.job["client_id"], attempt.outcome)
            lags[key][bucket((answer.started_at - attempt.due_at).total_seconds() * 1000)] += 1
            times[key][bucket((answer.finished_at - answer.started_at).total_seconds() * 1000)] += 1
    return [(*key, sum(counts), counts, times[key]) for key, counts in lags.items()]
