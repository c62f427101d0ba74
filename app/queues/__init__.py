"""Queues: made on first use, with limits that hold back what waits and never refuse it."""

from app.queues.ensuring import ensure

__all__ = ["ensure"]
