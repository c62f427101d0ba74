"""A page of jobs as a filter finds them: shared by the list of jobs and the dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from flask import request
from sqlalchemy.exc import OperationalError

from app.current import punctual
from app.dashboard import formats
from app.dashboard.job_filter import Filter
from app.database import sqlstate
from app.jobs import bulk, search
from app.jobs.bulk import Action
from app.jobs.queries import JobRow
from app.jobs.search import Count

PAGE = 50
QUERY_CANCELED = "57014"


@dataclass(frozen=True)
class JobPage:
    """The jobs of one page. `is_too_slow`: the filter was given up on, so that there are none."""

    jobs: Sequence[JobRow]
    count: Count
    newest: str | None = None
    next: str | None = None
    is_too_slow: bool = False

    @property
    def shown(self) -> str:
        """50 of about 1.2 million"""
        return f"{len(self.jobs)} of {in_words(self.count)}"


def in_words(count: Count) -> str:
    return formats.about(count.number) if count.is_estimate else formats.count(count.number)


def load(wanted: Filter, endpoint: str) -> JobPage:
    """The page that the address asks for: the newest jobs, or those after its `after`."""
    if wanted.problems:
        return JobPage([], Count(0))
    after = _after()
    engine = punctual().engine
    try:
        found = search.page(engine, wanted.search, PAGE + 1, after)
        count = search.count(engine, wanted.search)
    except OperationalError as error:
        if sqlstate(error) != QUERY_CANCELED:
            raise
        return JobPage([], Count(0), is_too_slow=True)
    jobs = found[:PAGE]
    return JobPage(
        jobs,
        count,
        newest=wanted.address(endpoint) if after else None,
        next=wanted.address(endpoint, after=str(jobs[-1].id)) if len(found) > PAGE else None,
    )


def actions(statuses: Sequence[str]) -> list[Action]:
    """What may be done to jobs in these statuses; none named means all of them."""
    return [
        action for action, leaves in bulk.LEAVES.items() if not statuses or any(status in leaves for status in statuses)
    ]


def _after() -> UUID | None:
    try:
        return UUID(request.args.get("after", ""))
    except ValueError:
        return None
