"""How many jobs of a limited queue may start now: its slots, and what its rate leaves. Pure.

A rate is kept at the receiver: no span of `rate_period_seconds` there may see more than `rate_limit` calls begin. Calls arrive up
to ARRIVAL_SPREAD later than they were claimed (a claim that waits longer is handed back), so the period is longer by that here.
Starts are counted in at most MOST_COUNTS groups, each by its last start: never too few are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

ARRIVAL_SPREAD = timedelta(milliseconds=100)
MOST_COUNTS = 100
# What a queue takes, as its table holds it.
MAX_CONCURRENCY = 100_000
MAX_RATE_LIMIT = 1_000_000
MIN_PERIOD_SECONDS, MAX_PERIOD_SECONDS = 0.1, 604_800.0

Starts = list[tuple[datetime, int]]


@dataclass(frozen=True, slots=True)
class Limits:
    """A queue's limits, and its starts of the last period, oldest first."""

    concurrency: int | None
    rate_limit: int | None
    rate_period_seconds: float | None
    is_paused: bool
    starts: Sequence[tuple[datetime, int]]

    @property
    def period(self) -> timedelta:
        return timedelta(seconds=self.rate_period_seconds or 0.0) + ARRIVAL_SPREAD

    def recent(self, now: datetime) -> Starts:
        """The starts that still count at `now`."""
        return [(at, count) for at, count in self.starts if at > now - self.period]

    def free(self, running: int, now: datetime, wanted: int) -> int:
        """How many of `wanted` jobs may start now, `running` of the queue being under way."""
        if self.is_paused:
            return 0
        found = wanted
        if self.concurrency is not None:
            found = min(found, self.concurrency - running)
        if self.rate_limit is not None:
            found = min(found, self.rate_left(now))
        return max(0, found)

    def rate_left(self, now: datetime) -> int:
        """How many more the rate lets start now; of no account without a rate."""
        return max(0, (self.rate_limit or 0) - sum(count for _, count in self.recent(now)))

    def more_at(self, now: datetime) -> datetime:
        """When the rate lets more start than now: when the oldest start counts no more."""
        recent = self.recent(now)
        return recent[0][0] + self.period if recent else now

    def with_starts(self, count: int, now: datetime) -> Starts:
        """The starts after `count` more at `now`."""
        found = self.recent(now)
        if count:
            found.append((now, count))
        grain = self.period / MOST_COUNTS
        merged: Starts = []
        for at, number in reversed(found):
            if merged and merged[-1][0] - at < grain:
                merged[-1] = (merged[-1][0], merged[-1][1] + number)
            else:
                merged.append((at, number))
        return merged[::-1]
