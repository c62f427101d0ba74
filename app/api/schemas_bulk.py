"""Changing many jobs at once."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from app.api.schemas import AnswerModel, EntryId, InstantOut, Omittable, QueryModel, RequestModel, absent
from app.api.schemas_filter import JobFilterFields
from app.models.bulk import BULK_STATES

MAX_SPREAD_SECONDS = 30 * 86_400


class BulkChange(RequestModel):
    """What to do with every job that the filter matches now. An empty filter matches all that the action can change."""

    action: Literal["retry", "cancel", "delete"] = Field(
        description="retry: dead jobs. cancel: pending and scheduled ones. delete: finished ones."
    )
    filter: JobFilterFields
    dry_run: bool = Field(default=False, description="Only says how many match: exactly up to 10,000, about beyond.")
    spread_seconds: Omittable[Annotated[float, Field(gt=0, le=MAX_SPREAD_SECONDS)]] = Field(
        default_factory=absent, description="Retried jobs run evenly over so many seconds."
    )


class BulkPath(QueryModel):
    bulk_id: EntryId


class BulkMatched(AnswerModel):
    """How many there are. `is_estimate` only beside a number that was not counted, but estimated."""

    matched: int
    is_estimate: Omittable[bool] = Field(default_factory=absent)


class BulkAccepted(AnswerModel):
    id: int


class BulkOperation(AnswerModel):
    """How far it is. `passed_by`: jobs that had changed since it was asked for, and were left alone; all of them when it is done.

    `matched` beyond 10,000 is an estimate until it is done.
    """

    id: int
    action: str
    state: str = Field(json_schema_extra={"enum": list(BULK_STATES)})
    matched: int
    changed: int
    passed_by: int
    error: str | None
    created_at: InstantOut
    finished_at: InstantOut | None
