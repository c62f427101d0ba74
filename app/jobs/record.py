"""Recording: many ended attempts in one statement, for jobs, executions and the minute's counts alike."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import structlog
from sqlalchemy import Connection, Row, text
from sqlalchemy.exc import SQLAlchemyError

from app.attempts import Answer
from app.database import is_about_a_row
from app.ids import uuid7
from app.jobs import follow_ups
from app.jobs.stats import added, bucket, counted
from app.outcomes import Ending
from app.stream import Due, Ticket

logger = structlog.get_logger(__name__)

# Each column of a batch: its name in the statement and the array type it is sent as.
COLUMNS = {
    "id": "uuid",
    "generation": "int",
    "attempt": "int",
    "number": "int",
    "worker": "uuid",
    "lease_ended": "bool",
    "execution_status": "text",
    "due_at": "timestamptz",
    "started_at": "timestamptz",
    "finished_at": "timestamptz",
    "status_code": "int",
    "error_class": "text",
    "error": "text",
    "job_error": "text",
    "timings": "text",
    "headers": "text",
    "body": "text",
    "truncated": "bool",
    "next_status": "text",
    "delay_seconds": "float8",
    "lag_bucket": "int",
    "time_bucket": "int",
    "follow_id": "uuid",
}
_ARRAYS = ", ".join(f"CAST(:{name} AS {kind}[])" for name, kind in COLUMNS.items())

# Rows are found by their ids, in an array whose length the planner cannot see: it would rather read the whole table, while that is small.
# `status || ''` keeps it from walking the indexes of what waits or runs. What is looked up in a CTE is asked by IN, which hashes it.
_RECORD = f"""
    WITH clock AS MATERIALIZED (SELECT punctual_now() AS now),
    r AS MATERIALIZED (SELECT * FROM unnest({_ARRAYS}) AS u({", ".join(COLUMNS)})),
    fenced AS MATERIALIZED (
      SELECT j.id, j.status AS was FROM jobs j JOIN r ON r.id = j.id CROSS JOIN clock
      WHERE j.id = ANY(ARRAY(SELECT id FROM r)) AND j.queue_generation = r.generation AND j.attempts = r.attempt AND (
        (j.status || '' = 'running' AND j.worker = r.worker AND (NOT r.lease_ended OR j.lease_expires_at < clock.now))
        OR (r.execution_status <> 'lost' AND (j.status || '' = 'scheduled' OR (j.status || '' = 'dead' AND j.last_error_class = 'lost'))
            AND EXISTS (SELECT FROM executions e WHERE e.job_id = j.id AND e.queue_generation = r.generation
                          AND e.attempt = r.attempt AND e.status = 'lost' AND e.worker = r.worker)))
    ),
    held AS MATERIALIZED (
      SELECT j.id FROM jobs j JOIN r ON r.id = j.id JOIN fenced f ON f.id = j.id
      WHERE j.id = ANY(ARRAY(SELECT id FROM fenced)) AND j.queue_generation = r.generation AND j.attempts = r.attempt
        AND j.status || '' = f.was
        AND (f.was <> 'running' OR (j.worker = r.worker AND (NOT r.lease_ended OR j.lease_expires_at < (SELECT now FROM clock))))
      ORDER BY j.id FOR NO KEY UPDATE OF j SKIP LOCKED
    ),
    changed AS (
      UPDATE jobs j SET
        status = CASE WHEN r.next_status = 'scheduled' AND j.cancel_requested_at IS NOT NULL THEN 'cancelled' ELSE r.next_status END,
        run_at = CASE WHEN r.next_status = 'scheduled' THEN clock.now + make_interval(secs => r.delay_seconds) ELSE j.run_at END,
        finished_at = CASE WHEN r.next_status = 'scheduled' AND j.cancel_requested_at IS NULL THEN NULL ELSE clock.now END,
        lease_expires_at = NULL, worker = NULL, last_error = r.job_error, last_error_class = r.error_class,
        last_status_code = r.status_code, updated_at = clock.now
      FROM r, held, clock WHERE j.id = ANY(ARRAY(SELECT id FROM held)) AND j.id = r.id AND held.id = j.id
      RETURNING j.id, j.client_id, j.status, j.run_at, j.queue_generation, j.attempts
    ),
    written AS (
      INSERT INTO executions (job_id, queue_generation, attempt, number, status, due_at, started_at, finished_at, status_code,
                              error_class, error, timings, response_headers, response_body, response_truncated, worker)
      SELECT r.id, r.generation, r.attempt, r.number, r.execution_status, r.due_at, r.started_at, coalesce(r.finished_at, clock.now),
             r.status_code, r.error_class, r.error, CAST(r.timings AS jsonb), CAST(r.headers AS jsonb), r.body, r.truncated, r.worker
      FROM r CROSS JOIN clock JOIN jobs j ON j.id = r.id
      WHERE j.id = ANY(ARRAY(SELECT id FROM r))
        AND (r.id IN (SELECT id FROM held) OR (r.id NOT IN (SELECT id FROM fenced) AND r.execution_status <> 'lost'))
      ORDER BY r.id
      ON CONFLICT (job_id, queue_generation, attempt) DO UPDATE SET
        status = excluded.status, started_at = excluded.started_at, finished_at = excluded.finished_at,
        status_code = excluded.status_code, error_class = excluded.error_class, error = excluded.error, timings = excluded.timings,
        response_headers = excluded.response_headers, response_body = excluded.response_body,
        response_truncated = excluded.response_truncated
      WHERE executions.status = 'lost' AND executions.worker = excluded.worker
    ),
    tallied AS (
      INSERT INTO minute_stats (minute, client_id, outcome, count, start_lag_buckets, callback_time_buckets)
      SELECT date_trunc('minute', clock.now), c.client_id, o.outcome, count(*), {counted("r.lag_bucket")}, {counted("r.time_bucket")}
      FROM changed c JOIN r ON r.id = c.id CROSS JOIN clock
      CROSS JOIN LATERAL (SELECT CASE WHEN c.status = 'done' THEN 'succeeded' WHEN c.status = 'scheduled' AND r.execution_status = 'lost' THEN 'lost'
                                      WHEN c.status = 'scheduled' THEN 'retried' ELSE c.status END AS outcome) o
      GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
      ON CONFLICT (minute, client_id, outcome) DO UPDATE SET count = minute_stats.count + excluded.count,
        start_lag_buckets = {added("start_lag_buckets")}, callback_time_buckets = {added("callback_time_buckets")}
    )
"""
# What was changed, and what could not be, since it was locked; of the rest there is no row.
_ANSWER = """
    SELECT c.id, c.status, c.run_at, clock.now, {follow_up} AS follow_up FROM changed c CROSS JOIN clock {source}
    UNION ALL
    SELECT f.id, NULL, NULL, clock.now, NULL FROM fenced f CROSS JOIN clock WHERE f.id NOT IN (SELECT id FROM changed)
"""
RECORD = text(_RECORD + _ANSWER.format(follow_up="CAST(NULL AS uuid)", source=""))
# For a batch in which somebody is told how a job ended.
_FOLLOWED = follow_ups.cte(
    status_code="r.status_code", error="r.job_error", excerpt="r.body", source="JOIN r ON r.id = c.id"
)
RECORD_AND_FOLLOW = text(
    f"{_RECORD}, {_FOLLOWED}"
    + _ANSWER.format(follow_up="t.id", source="LEFT JOIN followed t ON t.follows_job_id = c.id")
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What became of one ending. `again`: its row was locked; record it in a later batch.

    `late`: the job went on without this attempt, which is only on record (C10). `applied`: `status` and `run_at` hold,
    and `follow_up` is the job that tells how this one ended.
    `refused`: not even its bare end could be stored; the row stays `running`, and the rescuer finds it when its lease ends.
    """

    ending: Ending
    outcome: Literal["applied", "late", "again", "refused"]
    status: str | None = None
    run_at: datetime | None = None
    now: datetime | None = None
    follow_up: UUID | None = None

    @property
    def due(self) -> list[Due]:
        """What is to be enqueued after the commit: the job's next attempt, and the job that tells how it ended."""
        claim, found = self.ending.claim, []
        if self.status == "scheduled" and self.run_at is not None:
            found.append(Due(Ticket(str(claim.job_id), claim.queue_generation, claim.attempt), self.run_at, claim.lane))
        if self.follow_up is not None and self.now is not None:
            found.append(Due(Ticket(str(self.follow_up), 0, 0), self.now, claim.lane))
        return found


@dataclass(frozen=True, slots=True)
class ToRecord:
    """An ending under the worker it was claimed by. `lease_ended`: only if its lease has ended by the time of the statement."""

    ending: Ending
    worker: UUID
    lease_ended: bool = False


def record(conn: Connection, batch: Sequence[ToRecord]) -> list[Recorded]:
    """Stores a batch; each job at most once in it. May leave `running`, and `scheduled` or `dead` by an attempt's own loss (C10).

    One statement: a crash before its end leaves the rows running, to be recorded again or found lost. Repeating it changes
    nothing: the fences (C5) no longer match, and an execution is written once.
    A batch that fails for what one of its answers holds is halved until that one stands alone (C6), which is stored without
    its text.
    """
    try:
        return _record(conn, batch)
    except (SQLAlchemyError, UnicodeError) as error:
        if not is_about_a_row(error):
            raise
        if len(batch) == 1:
            return _record_alone(conn, batch[0], error)
    half = len(batch) // 2
    return record(conn, batch[:half]) + record(conn, batch[half:])


def _record_alone(conn: Connection, item: ToRecord, refused: Exception) -> list[Recorded]:
    """The one that was refused: without its text, then with nothing but its end, then not at all."""
    claim = item.ending.claim
    for less in (_without_text, _without_anything):
        reason = str(refused).splitlines()[0]
        logger.error("attempt_not_recordable", job_id=str(claim.job_id), attempt=claim.attempt, error=reason)
        try:
            return _record(conn, [less(item)])
        except (SQLAlchemyError, UnicodeError) as error:
            if not is_about_a_row(error):
                raise
            refused = error
    logger.error(
        "attempt_given_up", job_id=str(claim.job_id), attempt=claim.attempt, error=str(refused).splitlines()[0]
    )
    return [Recorded(item.ending, "refused")]


def _record(conn: Connection, batch: Sequence[ToRecord]) -> list[Recorded]:
    if not batch:
        return []
    rows = [_row(item) for item in batch]
    parameters = {name: [row[name] for row in rows] for name in COLUMNS}
    is_followed = any(item.ending.claim.is_followed for item in batch)
    rows_by_id = {row.id: row for row in conn.execute(RECORD_AND_FOLLOW if is_followed else RECORD, parameters)}
    return [_recorded(item.ending, rows_by_id.get(item.ending.claim.job_id)) for item in batch]


def _recorded(ending: Ending, row: Row[Any] | None) -> Recorded:
    if row is None:
        return Recorded(ending, "late")
    if row.status is None:
        return Recorded(ending, "again")
    return Recorded(ending, "applied", row.status, row.run_at, row.now, row.follow_up)


def _row(item: ToRecord) -> dict[str, Any]:
    ending = item.ending
    claim, answer = ending.claim, ending.answer
    return {
        "id": claim.job_id,
        "generation": claim.queue_generation,
        "attempt": claim.attempt,
        "number": claim.number,
        "worker": item.worker,
        "lease_ended": item.lease_ended,
        "execution_status": answer.execution_status,
        "due_at": claim.due_at,
        "started_at": answer.started_at,
        "finished_at": None if answer.error_class == "lost" else answer.finished_at,
        "status_code": answer.status_code,
        "error_class": answer.error_class,
        "error": answer.error,
        "job_error": ending.error,
        "timings": json.dumps(answer.timings),
        "headers": json.dumps(answer.response_headers),
        "body": answer.response_body,
        "truncated": answer.response_truncated,
        "next_status": ending.next_status,
        "delay_seconds": ending.delay_seconds,
        "lag_bucket": bucket((answer.started_at - claim.due_at).total_seconds() * 1000),
        "follow_id": uuid7() if claim.is_followed else None,
        "time_bucket": bucket((answer.finished_at - answer.started_at).total_seconds() * 1000),
    }


def _without_text(item: ToRecord) -> ToRecord:
    """The same ending without anything a receiver wrote. A success stays a success."""
    answer = item.ending.answer
    bare = replace(answer, error=None, timings={}, response_headers=(), response_body="", response_truncated=True)
    return replace(item, ending=replace(item.ending, answer=bare))


def _without_anything(item: ToRecord) -> ToRecord:
    """The bare fact that the attempt ended: a success stays one, all else is buried."""
    answer = item.ending.answer
    bare = Answer(answer.started_at, answer.finished_at, response_truncated=True)
    if item.ending.next_status == "done":
        return replace(item, ending=replace(item.ending, answer=bare))
    bare = replace(bare, error_class="unrecordable", error="The attempt could not be stored.")
    return replace(item, ending=replace(item.ending, answer=bare, next_status="dead", reason=None))
