"""What a job looks like in requests and answers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, RootModel, model_validator

from app.api.schemas import (
    DEFAULT_ATTEMPTS,
    DEFAULT_LIMIT,
    AnswerModel,
    AnyJson,
    CallbackUrl,
    IdempotencyKey,
    IdIn,
    IdOut,
    InstantIn,
    InstantOut,
    JobType,
    Limit,
    MaxAttempts,
    Offset,
    Omittable,
    Payload,
    QueryModel,
    RequestModel,
    Status,
    StatusIn,
    absent,
)

MAX_DELAY_SECONDS = 365 * 86_400

DelaySeconds = Annotated[float, Field(ge=0, le=MAX_DELAY_SECONDS)]


class JobSubmission(RequestModel):
    """A job to deliver: now, at `run_at`, or `delay_seconds` from now."""

    model_config = ConfigDict(
        json_schema_extra={
            "not": {"required": ["run_at", "delay_seconds"]},
            "example": {"type": "email.send", "payload": {"to": "ada"}, "callback_url": "https://example.com/hook"},
        }
    )

    type: JobType = Field(description="What kind of job it is, for the receiver and for people.")
    payload: Payload
    callback_url: CallbackUrl = Field(description="Where it is delivered: a public http or https address.")
    run_at: Omittable[InstantIn] = Field(default_factory=absent)
    delay_seconds: Omittable[DelaySeconds] = Field(
        default_factory=absent, description="Counted from when the job is accepted; a year at most."
    )
    max_attempts: MaxAttempts = DEFAULT_ATTEMPTS
    idempotency_key: Omittable[IdempotencyKey] = Field(
        default_factory=absent, description="The same key never makes a second job."
    )

    @model_validator(mode="after")
    def _one_time(self) -> JobSubmission:
        if self.run_at is not None and self.delay_seconds is not None:
            raise ValueError("give either run_at or delay_seconds, not both")
        return self


class IdempotencyHeader(BaseModel):
    """The key as a header, for programs that keep it out of the body."""

    key: Omittable[IdempotencyKey] = Field(
        default_factory=absent, alias="Idempotency-Key", description="The same as idempotency_key in the body."
    )


class PageQuery(QueryModel):
    limit: Limit = DEFAULT_LIMIT
    offset: Offset = 0
    cursor: Omittable[IdIn] = Field(
        default_factory=absent, description="Only what comes after the job with this id; the Link header has it."
    )


class JobsQuery(PageQuery):
    status: Omittable[StatusIn] = Field(default_factory=absent)


class SubmittedJob(AnswerModel):
    id: IdOut
    status: Status
    run_at: InstantOut


class JobSummary(AnswerModel):
    """A job as lists show it: without its payload."""

    id: IdOut
    type: str
    callback_url: str
    status: Status
    run_at: InstantOut = Field(description="The next attempt: moves with each retry.")
    scheduled_for: InstantOut = Field(description="When it was asked for.")
    attempts: int
    max_attempts: int
    last_error: str | None
    last_status_code: int | None
    cron_job_id: int | None
    idempotency_key: str | None
    queue_generation: int
    created_at: InstantOut
    updated_at: InstantOut
    started_at: InstantOut | None
    finished_at: InstantOut | None


class Job(JobSummary):
    payload: AnyJson


class JobList(RootModel[list[JobSummary]]):
    """Newest first."""


class Execution(AnswerModel):
    """One attempt to deliver a job."""

    number: int = Field(description="1, 2, … over the job's whole life.")
    attempt: int = Field(description="From 1, again after a retry by hand.")
    status: str
    due_at: InstantOut
    started_at: InstantOut
    finished_at: InstantOut
    status_code: int | None
    error_class: str | None
    error: str | None
    timings: dict[str, Any] = Field(description="Milliseconds by phase.")
    response_headers: list[Any]
    response_body: str = Field(description="At most its first 16 KB.")
    worker: str | None


class ExecutionList(RootModel[list[Execution]]):
    """Oldest first."""
