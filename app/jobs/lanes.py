"""A job's lane: whose it is, in which queue, and how urgent, as Redis keeps it beside the job's ticket."""

from __future__ import annotations


def lane(alias: str) -> str:
    """SQL for `client:queue:priority` of a row of jobs."""
    return f"concat({alias}.client_id, ':', {alias}.queue_id, ':', {alias}.priority)"
