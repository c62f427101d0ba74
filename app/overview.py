"""What the overview shows: rates, lags and queues from counts and bounded looks, none of which grows with the tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, text

from app.jobs.known_values import shown_host
from app.jobs.stats import BOUNDS_MS, OUTCOMES

# Counts beyond this are shown as "10,000+": an exact one would read the whole table.
CAP = 10_000
UPCOMING = 10
NEWEST_LOOKED_AT = 500
FAILING_HOSTS = 6

ATTEMPTS = text("""
    SELECT date_bin(CAST(:step AS interval), minute, TIMESTAMPTZ '2000-01-01') AS at, outcome, sum(count) AS attempts
    FROM minute_stats WHERE minute > CAST(:since AS timestamptz) GROUP BY 1, 2
""")
BUCKETS = text("""
    SELECT place, sum(lag) AS lag, sum(took) AS took
    FROM minute_stats, unnest(start_lag_buckets, callback_time_buckets) WITH ORDINALITY AS u(lag, took, place)
    WHERE minute > CAST(:since AS timestamptz) GROUP BY place ORDER BY place
""")
COUNTS = text(f"""
    SELECT (SELECT count(*) FROM (SELECT FROM jobs WHERE status IN ('pending', 'scheduled') AND run_at <= (SELECT punctual_now())
                                  LIMIT {CAP + 1}) c) AS due,
           (SELECT count(*) FROM (SELECT FROM jobs WHERE status IN ('pending', 'scheduled') AND run_at > (SELECT punctual_now())
                                  LIMIT {CAP + 1}) c) AS later,
           (SELECT count(*) FROM (SELECT FROM jobs WHERE status = 'running' LIMIT {CAP + 1}) c) AS running,
           (SELECT count(*) FROM (SELECT FROM jobs WHERE status = 'dead' LIMIT {CAP + 1}) c) AS dead
""")
NEXT_OCCURRENCES = text(f"""
    SELECT e.id, e.name, e.expression, e.timezone, e.due_at, c.name AS client FROM cron_entries e JOIN clients c ON c.id = e.client_id
    WHERE e.enabled AND e.due_at IS NOT NULL ORDER BY e.due_at, e.id LIMIT {UPCOMING}
""")
HOSTS = text(f"""
    SELECT callback_host AS host, count(*) FILTER (WHERE status = 'dead') AS dead, count(*) FILTER (WHERE status <> 'dead') AS retrying,
           max(updated_at) AS last_at, (array_agg(last_error ORDER BY updated_at DESC))[1] AS last_error
    FROM (
      (SELECT callback_host, status, updated_at, last_error FROM jobs WHERE status = 'dead' ORDER BY id DESC LIMIT {NEWEST_LOOKED_AT})
      UNION ALL
      (SELECT * FROM (SELECT callback_host, status, updated_at, last_error FROM jobs WHERE status IN ('pending', 'scheduled')
                      ORDER BY run_at LIMIT {NEWEST_LOOKED_AT}) w WHERE last_error IS NOT NULL)
    ) failing
    WHERE updated_at > (SELECT punctual_now()) - interval '1 day'
    GROUP BY callback_host ORDER BY count(*) DESC, host LIMIT {FAILING_HOSTS}
""")


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Milliseconds, read off the buckets; None while nothing was counted."""

    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class Period:
    """One stretch of time up to now. `points` are (begin, {outcome: attempts}), oldest first, without gaps."""

    points: list[tuple[datetime, dict[str, int]]]
    totals: dict[str, int]
    start_lag: Percentiles
    callback_time: Percentiles

    @property
    def ended(self) -> int:
        return sum(self.totals.values())

    @property
    def success_rate(self) -> float | None:
        """Succeeded attempts among those that ended, 0 to 1; None while there are none."""
        return self.totals["succeeded"] / self.ended if self.ended else None


def period(conn: Connection, now: datetime, span: timedelta, step: timedelta) -> Period:
    """What ended in `span` up to `now`, in steps of `step`."""
    first = _floor(now - span, step) + step
    found: dict[datetime, dict[str, int]] = defaultdict(dict)
    # The table's minutes begin on the minute: one that began just before the span's first step is not part of it.
    since = first - timedelta(microseconds=1)
    for row in conn.execute(ATTEMPTS, {"step": step, "since": since}):
        found[row.at.astimezone(UTC)][row.outcome] = int(row.attempts)
    places = int(span / step)
    points = [(first + step * place, found.get(first + step * place, {})) for place in range(places)]
    totals = {outcome: sum(counts.get(outcome, 0) for _, counts in points) for outcome in OUTCOMES}
    buckets = conn.execute(BUCKETS, {"since": since}).all()
    return Period(
        points, totals, percentiles([int(row.lag) for row in buckets]), percentiles([int(row.took) for row in buckets])
    )


def percentiles(counts: Sequence[int]) -> Percentiles:
    return Percentiles(*(_quantile(counts, share) for share in (0.5, 0.95, 0.99)))


def _quantile(counts: Sequence[int], share: float) -> float | None:
    """The value below which `share` of the counted lie, as if each bucket's were spread evenly over it."""
    wanted = sum(counts) * share
    if not wanted:
        return None
    below, lower = 0, 0.0
    for place, count in enumerate(counts):
        upper = float(BOUNDS_MS[min(place, len(BOUNDS_MS) - 1)])
        if count and below + count >= wanted:
            return lower + (upper - lower) * (wanted - below) / count
        below, lower = below + count, upper
    return lower


def counts(conn: Connection) -> dict[str, int]:
    """Jobs that are due, wait for later, run, or are dead; each at most CAP + 1."""
    return dict(conn.execute(COUNTS).mappings().one())


def next_occurrences(conn: Connection) -> list[dict[str, Any]]:
    return [dict(row) for row in conn.execute(NEXT_OCCURRENCES).mappings()]


def failing_hosts(conn: Connection) -> list[dict[str, Any]]:
    """Hosts with jobs that died or are being retried within a day, among the newest dead and the next in line."""
    return [{**row, "shown": shown_host(row["host"])} for row in conn.execute(HOSTS).mappings()]


def _floor(at: datetime, step: timedelta) -> datetime:
    return datetime.fromtimestamp(at.timestamp() // step.total_seconds() * step.total_seconds(), UTC)
