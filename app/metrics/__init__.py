"""/metrics for Prometheus: requests of the web processes of this host, and what the stores say about the jobs."""

from __future__ import annotations

from app.metrics.submissions import count_submitted
from app.metrics.view import register

__all__ = ["count_submitted", "register"]
