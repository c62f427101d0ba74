"""What a process counts by itself, for whoever serves its /metrics. No stores and no web here: worker and scheduler load it too."""

from __future__ import annotations

from prometheus_client import disable_created_metrics

# The time of each series' first count would double the series, and nobody asks for it.
disable_created_metrics()  # type: ignore[no-untyped-call]
