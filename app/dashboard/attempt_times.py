"""The spans of an attempt. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.jobs.queries import JobRow
from app.jobs.timeline import Attempt

# As stored: milliseconds from the call's beginning to where each phase ended. What was not reached is missing.
POINTS = (("dns", "DNS"), ("connect", "Connect"), ("tls", "TLS"), ("first_byte", "First byte"), ("total", "Body"))


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


def last_wait(job: JobRow, attempts: Sequence[Attempt]) -> float | None:
    """Seconds between the last attempt's end and the next one's time, of a job that waits for a retry."""
    if job.status != "scheduled" or not job.attempts or not attempts:
        return None
    return (job.run_at - attempts[0].finished_at).total_seconds()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
