"""The spans of an attempt, and when a job's next attempts are planned. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from app.jobs.queries import JobRow
from app.jobs.timeline import Attempt
from app.models import FINISHED
from app.retry import DEFAULT_POLICY, planned

# As stored: milliseconds from the call's beginning to where each phase ended. What was not reached is missing.
POINTS = (("dns", "DNS"), ("connect", "Connect"), ("tls", "TLS"), ("first_byte", "First byte"), ("total", "Body"))
MOST_PLANNED = 20


@dataclass(frozen=True, slots=True)
class Planned:
    """An attempt to come: how long after the one before, and when at the earliest if that one fails at once."""

    attempt: int
    wait_seconds: float
    at: datetime


def phases(timings: Mapping[str, Any]) -> list[tuple[str, float]]:
    """(phase, milliseconds) in order; together they are the total. A phase that was skipped, or not measured, is left out."""
    found, before = [], 0.0
    reached = [(label, float(timings[name])) for name, label in POINTS if _is_number(timings.get(name))]
    for place, (label, at) in enumerate(reached):
        if at > before:
            is_end = place == len(reached) - 1
            # A call that failed ends within the phase after the last point: it is the wait that was in vain.
            found.append(("Wait" if is_end and label == "Body" and "first_byte" not in timings else label, at - before))
            before = at
    return found


def planned_attempts(job: JobRow) -> list[Planned]:
    """Attempts after the next one, at the planned delays before jitter; none for a finished job."""
    if job.status in FINISHED:
        return []
    waits = planned(DEFAULT_POLICY, job.max_attempts)
    # The attempt that runs or waits next is told by the job itself; these come after it.
    following = job.attempts + (1 if job.status == "running" else 2)
    found, at = [], job.run_at
    for attempt in range(following, min(job.max_attempts, following + MOST_PLANNED - 1) + 1):
        wait = waits[attempt - 2]
        at += timedelta(seconds=wait)
        found.append(Planned(attempt, wait, at))
    return found


def last_wait(job: JobRow, attempts: Sequence[Attempt]) -> float | None:
    """Seconds between the last attempt's end and the next one's time, of a job that waits for a retry."""
    if job.status != "scheduled" or not job.attempts or not attempts:
        return None
    return (job.run_at - attempts[0].finished_at).total_seconds()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
