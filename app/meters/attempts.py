"""Counts and times of attempts in the worker that makes them, or the scheduler that finds them lost."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram

from app.jobs.record import Recorded
from app.jobs.stats import BOUNDS_MS
from app.meters.bounded import BoundedPairs

SECONDS = tuple(bound / 1000 for bound in BOUNDS_MS)
# A statement on a batch: a millisecond when all is well, seconds when PostgreSQL is not.
STATEMENT_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)

# Its own registry: the library's default one is shared with whatever else a process loads.
registry = CollectorRegistry()
counter = Counter(
    "attempts",
    "Attempts that this process recorded, by what came of them",
    labelnames=["client", "queue", "outcome"],
    registry=registry,
)
_start_lag = Histogram(
    "start_lag_seconds", "From when an attempt was due to its start", buckets=SECONDS, registry=registry
)
_callback = Histogram("callback_seconds", "From the start of a call to its end", buckets=SECONDS, registry=registry)
claim_seconds = Histogram(
    "claim_seconds", "A batch's claim in PostgreSQL", buckets=STATEMENT_SECONDS, registry=registry
)
record_seconds = Histogram(
    "record_seconds", "A batch's record in PostgreSQL", buckets=STATEMENT_SECONDS, registry=registry
)
_pairs = BoundedPairs()
_OUTCOMES = {"done": "succeeded", "scheduled": "retried", "dead": "dead", "cancelled": "cancelled"}


def count_recorded(recorded: Iterable[Recorded]) -> None:
    """Counts what was applied, by the words of minute_stats; a lost attempt has neither lag nor time."""
    for item in recorded:
        if item.outcome != "applied" or item.status is None:
            continue
        claim, answer = item.ending.claim, item.ending.answer
        is_lost = answer.error_class == "lost"
        outcome = "lost" if is_lost and item.status == "scheduled" else _OUTCOMES[item.status]
        client, queue = _pairs.label(claim.client_name, claim.queue_name)
        counter.labels(client, queue, outcome).inc()
        if not is_lost:
            _start_lag.observe(max(0.0, (answer.started_at - claim.due_at).total_seconds()))
            _callback.observe(max(0.0, (answer.finished_at - answer.started_at).total_seconds()))
