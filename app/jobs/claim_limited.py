"""Claiming from limited queues: under the queue's row lock, no more than PostgreSQL says is free."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from app.attempts import Claim
from app.jobs.claim import CLAIM_ANY, MAX_BATCH_BYTES, arrays, to_claim
from app.queues.limits import Limits
from app.stream import Due, Held, Rate, Ticket, token_of

# In id order, so that two batches never wait for each other.
LOCK = text("""
    SELECT id, client_id, concurrency, rate_limit, rate_period_seconds, paused_at IS NOT NULL AS is_paused, rate_starts, rate_counts
    FROM queues WHERE id = ANY(CAST(:ids AS bigint[])) ORDER BY id FOR NO KEY UPDATE
""")
# A statement of its own, after the lock: it sees what those who held the lock before have claimed.
RUNNING = text("""
    SELECT queue_id, count(*) AS running, (SELECT punctual_now()) AS now FROM jobs
    WHERE status = 'running' AND queue_id = ANY(CAST(:ids AS bigint[])) GROUP BY queue_id
""")
NOW = text("SELECT punctual_now()")
NOTE_STARTS = text("""
    UPDATE queues SET rate_starts = CAST(:starts AS timestamptz[]), rate_counts = CAST(:counts AS int[]) WHERE id = :id
""")


@dataclass(frozen=True, slots=True)
class ClaimedLimited:
    """The claims, and what Redis is to know: which jobs go back, which slots are kept, what the rates leave."""

    claims: list[Claim]
    held: Held
    now: datetime | None


def claim_limited(conn: Connection, worker: UUID, due: Sequence[Due]) -> ClaimedLimited:
    """Claims what its queue's limits leave free, in the order given; in one transaction of the caller's (C4, C8).

    1. Lock the queues. Another worker waits here until this one has committed.
    2. Count what runs and what has started lately. Running rows are the truth: a slot in Redis says nothing.
    3. Claim so many, and note the starts of those that were claimed. A crash before the commit leaves nothing.
    What is refused burns no attempt.
    """
    by_queue: dict[int, list[Due]] = defaultdict(list)
    for job in due:
        by_queue[int(token_of(job.lane).partition(":")[2])].append(job)
    ids = sorted(by_queue)
    limits = {row.id: (row.client_id, _limits(row)) for row in conn.execute(LOCK, {"ids": ids})}
    running = {row.queue_id: int(row.running) for row in conn.execute(RUNNING, {"ids": ids})}
    now: datetime = conn.execute(NOW).scalar_one()
    chosen: list[Due] = []
    for queue_id, (_, queue) in limits.items():
        jobs = by_queue[queue_id]
        chosen += jobs[: queue.free(running.get(queue_id, 0), now, len(jobs))]
    claims = _claim(conn, worker, [job.ticket for job in chosen])
    started: dict[int, int] = defaultdict(int)
    for claim in claims:
        started[claim.queue_id] += 1
    rates, full = [], []
    for queue_id, (client_id, queue) in limits.items():
        token = f"{client_id}:{queue_id}"
        if queue.rate_limit is not None:
            rates.append(_note_starts(conn, queue_id, token, queue, started[queue_id], now))
        if queue.concurrency is not None and running.get(queue_id, 0) + started[queue_id] >= queue.concurrency:
            full.append(token)
    claimed_ids = frozenset(str(claim.job_id) for claim in claims)
    refused = tuple(job for job in due if job.ticket.job_id not in claimed_ids)
    return ClaimedLimited(claims, Held(refused, claimed_ids, tuple(rates), tuple(full)), now if claims else None)


def _claim(conn: Connection, worker: UUID, tickets: Iterable[Ticket]) -> list[Claim]:
    wanted = list(tickets)
    if not wanted:
        return []
    parameters = {**arrays(wanted), "worker": worker, "max_bytes": MAX_BATCH_BYTES}
    return [to_claim(row) for row in conn.execute(CLAIM_ANY, parameters).mappings() if row["id"] is not None]


def _note_starts(conn: Connection, queue_id: int, token: str, queue: Limits, count: int, now: datetime) -> Rate:
    after = replace(queue, starts=queue.with_starts(count, now))
    if count:
        starts, counts = [at for at, _ in after.starts], [number for _, number in after.starts]
        conn.execute(NOTE_STARTS, {"id": queue_id, "starts": starts, "counts": counts})
    return Rate(token, after.rate_left(now), after.more_at(now))


def _limits(row: Any) -> Limits:
    starts = list(zip(row.rate_starts, row.rate_counts, strict=False))
    return Limits(row.concurrency, row.rate_limit, row.rate_period_seconds, row.is_paused, starts)
