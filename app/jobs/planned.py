"""When a job's next attempts come. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from app.jobs.queries import JobDetail
from app.models import FINISHED
from app.retry import planned_delay
from app.retry_policy import policy_of

MOST_PLANNED = 20


@dataclass(frozen=True, slots=True)
class Planned:
    """An attempt to come: how long after the one before, and when at the earliest if that one fails at once."""

    attempt: int
    wait_seconds: float
    at: datetime


def planned_attempts(job: JobDetail) -> list[Planned]:
    """Attempts after the next one, at the planned delays before jitter, up to MOST_PLANNED; none for a finished job.

    They end where either limit is met: max_attempts, or the policy's give_up_after_seconds.
    """
    if job.status in FINISHED:
        return []
    policy, found, at = policy_of(job.retry), list[Planned](), job.run_at
    # The attempt that runs or waits next is told by the job itself; these come after it.
    following = job.attempts + (1 if job.status == "running" else 2)
    for attempt in range(following, min(job.max_attempts, following + MOST_PLANNED - 1) + 1):
        wait_seconds = planned_delay(policy, attempt - 1)
        try:
            at += timedelta(seconds=wait_seconds)
        except OverflowError:  # past the year 9999
            break
        limit = policy.give_up_after_seconds
        if limit is not None and (at - job.first_due_at).total_seconds() > limit:
            break
        found.append(Planned(attempt, wait_seconds, at))
    return found
