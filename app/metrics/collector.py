"""Turns what the stores say into Prometheus' families. A store that is away leaves its families out, and says so."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from threading import Lock

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from sqlalchemy import text

from app.database import transaction
from app.health import Check, stores_away
from app.metrics.totals import MOST_DUE, OutcomeTotals, Truth, read_truth
from app.stores import Stores

# Everybody may ask for /metrics unless METRICS_TOKEN is set: asking often must cost little.
KEEP_SECONDS = 1.0
# A scrape waits so long for the stores, whatever they do.
WAIT_SECONDS = 2.0
QUEUE = ["client", "queue"]
STATEMENT_TIMEOUT = text("SELECT set_config('statement_timeout', '2s', true)")


class StoreCollector(Collector):
    """What PostgreSQL and Redis say now, at most a second old."""

    def __init__(self, find_stores: Callable[[], Stores]) -> None:
        self._find_stores = find_stores
        self._totals = OutcomeTotals()
        self._lock = Lock()
        self._stores: Stores
        self._from_postgresql: list[Metric] = []
        self._from_redis: list[Metric] = []
        self._checks = [Check("postgresql", self._ask_postgresql), Check("redis", self._ask_redis)]
        self._kept: list[Metric] = []
        self._kept_until = 0.0

    def collect(self) -> Iterable[Metric]:
        with self._lock:
            if time.monotonic() >= self._kept_until:
                self._stores = self._find_stores()
                away = stores_away(self._checks, WAIT_SECONDS)
                self._kept = [
                    *_told("postgresql", away, self._from_postgresql),
                    *_told("redis", away, self._from_redis),
                ]
                self._kept_until = time.monotonic() + KEEP_SECONDS
            return self._kept

    def _ask_postgresql(self) -> None:
        with transaction(self._stores.engine) as conn:
            conn.execute(STATEMENT_TIMEOUT)
            truth = read_truth(conn, self._totals)
        self._from_postgresql = [*_families(truth), *_queue_families(truth)]

    def _ask_redis(self) -> None:
        ready, scheduled = self._stores.stream.depth()
        self._from_redis = [
            _gauge("ready_stream_length", "Entries in Redis' ready stream", ready),
            _gauge("scheduled_set_size", "Members of Redis' scheduled set: jobs due within 30 s", scheduled),
        ]


def _told(name: str, away: list[str], found: list[Metric]) -> list[Metric]:
    """`NAME_up`, and what the store said if it did."""
    title = {"postgresql": "PostgreSQL", "redis": "Redis"}[name]
    up = _gauge(f"{name}_up", f"Whether {title} answered", int(name not in away))
    return [up, *([] if name in away else found)]


def _families(truth: Truth) -> Iterable[Metric]:
    outcomes = truth.outcomes
    yield _counter("jobs_completed", "Jobs that were delivered", outcomes["succeeded"])
    failed = sum(outcomes.values()) - outcomes["succeeded"]
    yield _counter("jobs_failed", "Attempts that failed, whether or not another one follows", failed)
    yield _counter("jobs_retried", "Failed attempts that another one follows", outcomes["retried"])
    yield _counter("jobs_dead", "Failed attempts that were a job's last", outcomes["dead"])
    executions = CounterMetricFamily("executions", "Ended attempts by what came of them", labels=["outcome"])
    for outcome, count in outcomes.items():
        executions.add_metric([outcome], count)
    yield executions
    depth = GaugeMetricFamily(
        "queue_depth", "Jobs that are due (ready), will be, or are being delivered", labels=["status"]
    )
    for status in ("ready", "scheduled", "running"):
        depth.add_metric([status], truth.rows[status])
    yield depth
    yield _gauge("dead_letters", "Jobs that are dead now", truth.rows["dead"])
    yield _gauge("oldest_due_job_age_seconds", "How long the oldest due job has waited", truth.oldest_due_seconds)
    yield _gauge("workers_alive", "Workers that beat", truth.alive.get("worker", 0))
    yield _gauge("schedulers_alive", "Schedulers that beat", truth.alive.get("scheduler", 0))
    yield _gauge("scheduler_leading", "Whether a scheduler leads", int(truth.is_led))
    entries = GaugeMetricFamily("cron_entries", "Cron entries", labels=["state"])
    for state, count in zip(("enabled", "disabled"), truth.cron_entries, strict=True):
        entries.add_metric([state], count)
    yield entries
    yield _gauge("circuits_open", "Hosts whose calls are held back because they keep failing", truth.circuits[0])
    yield _counter("circuit_openings", "How often a circuit opened", truth.circuits[1])
    times = CounterMetricFamily(
        "cron_occurrences",
        "Planned times of cron entries: fired, buffered (and fired or skipped later), or skipped, and why",
        labels=["status", "reason"],
    )
    for labels, count in truth.cron_totals.items():
        times.add_metric(labels, count)
    yield times


def _queue_families(truth: Truth) -> Iterable[Metric]:
    due = GaugeMetricFamily("queue_due_jobs", f"Due jobs that wait in a queue, up to {MOST_DUE}.", labels=QUEUE)
    oldest = GaugeMetricFamily(
        "queue_oldest_due_age_seconds", "How long a queue's oldest due job has waited.", labels=QUEUE
    )
    for labels, (count, age) in truth.queues.items():
        due.add_metric(labels, count)
        oldest.add_metric(labels, age)
    beats = GaugeMetricFamily(
        "last_beat_age_seconds", "Since the last sign of life of any process of a kind.", labels=["kind"]
    )
    for kind, age in truth.beat_ages.items():
        beats.add_metric([kind], age)
    yield from (due, oldest, beats)


def _counter(name: str, words: str, value: float) -> Metric:
    return CounterMetricFamily(name, f"{words}.", value=value)


def _gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(name, f"{words}.", value=value)
