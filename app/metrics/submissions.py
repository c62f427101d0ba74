"""Counts accepted submissions in the web process that accepted them: the INSERT stays one statement on one table."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

# Its own registry: the library's default one is shared with whatever else a process loads.
registry = CollectorRegistry()
_jobs_submitted = Counter("jobs_submitted", "Jobs accepted over the API and the dashboard", registry=registry)


def count_submitted(count: int = 1) -> None:
    """Adds jobs that were made; a replayed submission makes none."""
    _jobs_submitted.inc(count)
