"""The buckets of minute_stats: counts of ended attempts by start lag and by callback time."""

from __future__ import annotations

from bisect import bisect_left

# Upper bounds in milliseconds, inclusive; the last bucket has none.
BOUNDS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000)
BUCKETS = len(BOUNDS_MS) + 1
# What ended attempts are counted under: the job is done, will be tried again, is dead, was cancelled; its attempt was lost.
OUTCOMES = ("succeeded", "retried", "dead", "cancelled", "lost")


def bucket(milliseconds: float) -> int:
    """The index of the bucket a value falls into; negative values (never expected) fall into the first."""
    return bisect_left(BOUNDS_MS, milliseconds)


def counted(column: str) -> str:
    """SQL for one array of counts by bucket, from a grouped column that holds bucket indexes."""
    return "ARRAY[" + ", ".join(f"count(*) FILTER (WHERE {column} = {index})" for index in range(BUCKETS)) + "]"


def added(column: str) -> str:
    """SQL for the sum of the stored and the new array, bucket by bucket."""
    return (
        f"ARRAY(SELECT o + n FROM unnest(minute_stats.{column}, excluded.{column}) WITH ORDINALITY AS u(o, n, place) "
        "ORDER BY place)"
    )
