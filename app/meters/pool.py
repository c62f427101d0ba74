"""How many connections to PostgreSQL a process may hold, and holds at work now."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from sqlalchemy import Engine, QueuePool


class PoolCollector(Collector):
    """The pool of the process that answers the scrape."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterable[Metric]:
        pool = self._engine.pool
        if isinstance(pool, QueuePool):
            size, busy = float(pool.size()), float(pool.checkedout())
            yield GaugeMetricFamily("postgresql_pool_size", "Connections this process may hold.", value=size)
            yield GaugeMetricFamily("postgresql_pool_in_use", "Connections at work in this process.", value=busy)
