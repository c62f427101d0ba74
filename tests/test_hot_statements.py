"""What each job costs does not grow with the backlog: the statements of the hot path find rows by their ids, whatever is believed of the table."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis
from sqlalchemy import Connection, Engine, TextClause, text

from app.ids import uuid7
from app.jobs.claim import CLAIM, CLAIM_ANY, MAX_BATCH_BYTES, STILL_WAITING, arrays
from app.jobs.record import COLUMNS, RECORD, RECORD_AND_FOLLOW
from app.stream import Ticket
from tests.factories import Scene

BACKLOG, BATCH = 5000, 20
# About 30 pages are touched for a claimed job, and 60 for a recorded one: its row, and its new version's place in each index.
MOST_PAGES = 100 * BATCH
BACKLOG_OF = text("""
    INSERT INTO jobs (id, client_id, queue_id, type, payload, payload_bytes, callback_url, callback_host, status, run_at, scheduled_for,
                      first_due_at, max_attempts, created_at, updated_at)
    SELECT gen_random_uuid(), q.client_id, q.id, 't', '1', 1, 'http://127.0.0.1:9/', 'http://127.0.0.1:9', 'pending', now, now, now, 5, now, now
    FROM (SELECT punctual_now() AS now) AS clock, (SELECT client_id, min(id) AS id FROM queues GROUP BY 1) q, generate_series(1, :count)
    RETURNING id
""")


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


def pages(conn: Connection, statement: TextClause, parameters: dict[str, Any]) -> int:
    """Runs the statement; how many pages it touched."""
    told = conn.execute(text(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement.text}"), parameters).scalar_one()
    plan = (json.loads(told) if isinstance(told, str) else told)[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def endings(tickets: list[Ticket], worker: Any) -> dict[str, list[Any]]:
    values = {
        "generation": 0, "attempt": 1, "number": 1, "worker": worker, "lease_ended": False, "execution_status": "succeeded",
        "due_at": "2026-01-01", "started_at": "2026-01-01", "finished_at": "2026-01-01", "status_code": 200, "timings": "{}",
        "headers": "[]", "body": "", "truncated": False, "next_status": "done", "lag_bucket": 0, "time_bucket": 0,
    }  # fmt: skip
    return {
        name: [ticket.job_id for ticket in tickets] if name == "id" else [values.get(name)] * len(tickets)
        for name in COLUMNS
    }


@pytest.mark.parametrize("is_known", [False, True], ids=["believed empty", "analyzed"])
@pytest.mark.parametrize(("claim", "record"), [(CLAIM, RECORD), (CLAIM_ANY, RECORD_AND_FOLLOW)])
def test_a_batch_costs_the_same_however_much_waits(
    scene: Scene, claim: TextClause, record: TextClause, is_known: bool
) -> None:
    worker = scene.worker()
    scene.conn.execute(text("ANALYZE jobs"))
    ids = list(scene.conn.execute(BACKLOG_OF, {"count": BACKLOG}).scalars())
    if is_known:
        scene.conn.execute(text("ANALYZE jobs"))
    tickets = [Ticket(str(job_id), 0, 0) for job_id in ids[:: BACKLOG // BATCH]]
    asked = {**arrays(tickets), "worker": worker, "max_bytes": MAX_BATCH_BYTES}
    found = {"still waiting": pages(scene.conn, STILL_WAITING, arrays(tickets))}
    found["claim"] = pages(scene.conn, claim, asked)
    assert scene.count("jobs", "status = 'running'") == BATCH
    parameters = {**endings(tickets, worker), "follow_id": [uuid7() for _ in tickets]}
    found["record"] = pages(scene.conn, record, parameters)
    assert scene.count("jobs", "status = 'done'") == BATCH
    assert all(count < MOST_PAGES for count in found.values()), found
