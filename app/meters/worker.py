"""What a worker's /metrics says: its attempts, its pool, and how full its hands are."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Gauge
from sqlalchemy import Engine

from app.meters import attempts
from app.meters.pool import PoolCollector


def worker_registry(engine: Engine, held: Callable[[], int], concurrency: int) -> CollectorRegistry:
    """`held`: how many claimed jobs are in the worker's hands now."""
    registry = attempts.registry
    registry.register(PoolCollector(engine))
    in_flight = Gauge("worker_in_flight", "Claimed jobs in this worker's hands", registry=registry)
    in_flight.set_function(lambda: float(held()))
    places = Gauge("worker_concurrency", "Calls this worker makes at once, at most", registry=registry)
    places.set(concurrency)
    return registry
