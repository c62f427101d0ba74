"""The counters of all web processes of this host, from the files that gunicorn's workers share."""

from __future__ import annotations

import os
from collections.abc import Iterable

from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector


class ProcessFiles(MultiProcessCollector):
    """Sums the files of all web processes of this host. A file that a process has just made is still empty: it waits."""

    def collect(self) -> Iterable[Metric]:
        paths = [entry.path for entry in os.scandir(self._path) if entry.name.endswith(".db") and entry.stat().st_size]
        merged: Iterable[Metric] = self.merge(paths, accumulate=True)  # type: ignore[no-untyped-call]
        return merged
