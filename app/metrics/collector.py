"""Turns what the stores say into Prometheus' families. A store that is away leaves its families out, and says so."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from threading import Lock

import redis
import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from app.database import transaction
from app.metrics.totals import OutcomeTotals, Truth, read_truth
from app.stores import Stores

logger = structlog.get_logger(__name__)

# Everybody may ask for /metrics unless METRICS_TOKEN is set: asking often must cost little.
KEEP_SECONDS = 1.0
STATEMENT_TIMEOUT = text("SELECT set_config('statement_timeout', '2s', true)")


class StoreCollector(Collector):
    """What PostgreSQL and Redis say now, at most a second old."""

    def __init__(self, find_stores: Callable[[], Stores]) -> None:
        self._find_stores = find_stores
        self._totals = OutcomeTotals()
        self._lock = Lock()
        self._kept: list[Metric] = []
        self._kept_until = 0.0

    def collect(self) -> Iterable[Metric]:
        with self._lock:
            if time.monotonic() >= self._kept_until:
                stores = self._find_stores()
                self._kept = [*self._postgresql(stores), *_redis(stores)]
                self._kept_until = time.monotonic() + KEEP_SECONDS
            return self._kept

    def _postgresql(self, stores: Stores) -> list[Metric]:
        try:
            with transaction(stores.engine) as conn:
                conn.execute(STATEMENT_TIMEOUT)
                truth = read_truth(conn, self._totals)
        except SQLAlchemyError as error:
            logger.warning("metrics_without_postgresql", error=str(error).splitlines()[0])
            return [_gauge("postgresql_up", "Whether PostgreSQL answered", 0)]
        return [_gauge("postgresql_up", "Whether PostgreSQL answered", 1), *_families(truth)]


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


def _redis(stores: Stores) -> list[Metric]:
    try:
        ready, scheduled = stores.stream.depth()
    except (redis.RedisError, OSError) as error:
        logger.warning("metrics_without_redis", error=str(error))
        return [_gauge("redis_up", "Whether Redis answered", 0)]
    return [
        _gauge("redis_up", "Whether Redis answered", 1),
        _gauge("ready_stream_length", "Entries in Redis' ready stream", ready),
        _gauge("scheduled_set_size", "Members of Redis' scheduled set: jobs due within 30 s", scheduled),
    ]


def _counter(name: str, words: str, value: float) -> Metric:
    return CounterMetricFamily(name, f"{words}.", value=value)


def _gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(name, f"{words}.", value=value)
