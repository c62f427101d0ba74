"""Counts accepted submissions in the web process that accepted them: the INSERT stays one statement on one table."""

from __future__ import annotations

from threading import Lock

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.values import ValueClass

from app.meters.bounded import BoundedPairs, Pair
from app.metrics.process_files import ProcessFiles

# Its own registry: the library's default one is shared with whatever else a process loads.
registry = CollectorRegistry()
_jobs_submitted = Counter(
    "jobs_submitted",
    "Jobs accepted over the API and the dashboard",
    labelnames=["client", "queue"],
    registry=registry,
)


class _Pairs:
    """The pairs this process tells apart: first of all those that earlier processes of this host did, by their files.

    Else each restart could add as many new ones to the files, which are kept.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._pairs: BoundedPairs | None = None

    def label(self, client: str, queue: str) -> Pair:
        with self._lock:
            if self._pairs is None:
                self._pairs = BoundedPairs(_counted_before())
        return self._pairs.label(client, queue)


_pairs = _Pairs()


def count_submitted(client: str, queue: str, count: int = 1) -> None:
    """Adds jobs that were made; a replayed submission makes none."""
    if count:
        _jobs_submitted.labels(*_pairs.label(client, queue)).inc(count)


def _counted_before() -> set[Pair]:
    if not ValueClass._multiprocess:
        return set()
    return {
        (sample.labels["client"], sample.labels["queue"])
        for metric in ProcessFiles(None).collect()  # type: ignore[no-untyped-call]
        if metric.name == "jobs_submitted"
        for sample in metric.samples
        if sample.labels
    }
