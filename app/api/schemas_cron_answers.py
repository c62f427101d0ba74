"""What cron entries and their occurrences look like in answers."""

from __future__ import annotations

from pydantic import Field, RootModel

from app.api.schemas import AnswerModel, AnyJson, IdOut, InstantOut, Omittable, absent
from app.api.schemas_cron import CatchUp, Overlap
from app.api.schemas_jobs import RetryAnswer
from app.models.cron import OCCURRENCE_STATUSES, SKIP_REASONS


class CreatedCronJob(AnswerModel):
    id: int = Field(json_schema_extra={"example": 42})


class JobTemplateAnswer(AnswerModel):
    """As it would be asked for: what is left out has its default."""

    type: str
    callback_url: str
    max_attempts: int
    method: Omittable[str] = Field(default_factory=absent)
    headers: Omittable[dict[str, str]] = Field(default_factory=absent)
    payload: AnyJson = Field(default_factory=absent)
    body: Omittable[str] = Field(default_factory=absent)
    content_type: Omittable[str] = Field(default_factory=absent)
    timeout_seconds: Omittable[float] = Field(default_factory=absent)
    success_statuses: Omittable[list[int | str]] = Field(default_factory=absent)
    retry: Omittable[RetryAnswer] = Field(default_factory=absent)
    queue: Omittable[str] = Field(default_factory=absent)
    priority: Omittable[int] = Field(default_factory=absent)
    tags: Omittable[list[str]] = Field(default_factory=absent)
    on_success_url: Omittable[str] = Field(default_factory=absent)
    on_failure_url: Omittable[str] = Field(default_factory=absent)


class CronJob(AnswerModel):
    """A cron entry. `next_run_at` is nominal, `next_due_at` has its offset added; both are null while it is not enabled."""

    id: int
    name: str | None
    description: str | None
    cron_expression: str
    timezone: str
    job_template: JobTemplateAnswer
    overlap: Overlap
    catch_up: CatchUp
    catch_up_window_seconds: int
    starts_at: InstantOut | None
    ends_at: InstantOut | None
    jitter_seconds: int
    enabled: bool
    next_run_at: InstantOut | None
    next_due_at: InstantOut | None
    last_run_at: InstantOut | None
    disabled_reason: str | None
    paused_at: InstantOut | None
    pause_reason: str | None
    paused_by: str | None
    created_at: InstantOut
    updated_at: InstantOut


class CronJobList(RootModel[list[CronJob]]):
    """Newest first."""


class CronTimes(AnswerModel):
    next: list[InstantOut]
    description: str = Field(json_schema_extra={"example": "At 02:30 AM"})


class TriggeredJob(AnswerModel):
    id: IdOut


class BackfillCount(AnswerModel):
    count: int = Field(json_schema_extra={"example": 24})


class CronOccurrence(AnswerModel):
    """What became of a planned time. `due_at` is `nominal_at` with the entry's offset."""

    nominal_at: InstantOut
    due_at: InstantOut
    status: str = Field(json_schema_extra={"enum": list(OCCURRENCE_STATUSES)})
    reason: str | None = Field(json_schema_extra={"enum": [*SKIP_REASONS, None]})
    detail: str | None
    job_id: IdOut | None
    through_at: InstantOut | None
    count: int
    recorded_at: InstantOut


class CronOccurrenceList(RootModel[list[CronOccurrence]]):
    """Newest first."""
