"""What a scheduler's /metrics says: whether it leads, how its loops turn, what it rescued and rebuilt."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from sqlalchemy import Engine

from app.meters import attempts
from app.meters.pool import PoolCollector

rescued = Counter("attempts_rescued", "Attempts found lost and taken from workers that are gone", registry=None)
redis_rebuilds = Counter("redis_rebuilds", "How often Redis was refilled from PostgreSQL", registry=None)


class LoopAges(Collector):
    """Seconds since each loop ended a turn. `turns`: when that was, by the monotonic clock."""

    def __init__(self, turns: Callable[[], Mapping[str, float]]) -> None:
        self._turns = turns

    def collect(self) -> Iterable[Metric]:
        now = time.monotonic()
        ages = GaugeMetricFamily(
            "scheduler_loop_age_seconds", "Since this scheduler's loop last ended a turn.", labels=["loop"]
        )
        for name, turned_over_at in self._turns().items():
            ages.add_metric([name], now - turned_over_at)
        yield ages


def scheduler_registry(
    engine: Engine, leads: Callable[[], bool], turns: Callable[[], Mapping[str, float]]
) -> CollectorRegistry:
    """The lost attempts that this process recorded are among its attempts."""
    registry = CollectorRegistry()
    for collector in (attempts.counter, rescued, redis_rebuilds, PoolCollector(engine), LoopAges(turns)):
        registry.register(collector)
    leading = Gauge("scheduler_leads", "Whether this scheduler leads", registry=registry)
    leading.set_function(lambda: float(leads()))
    return registry
