"""What a job looks like in requests and answers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, RootModel, field_validator, model_validator

from app.api.schemas import (
    DEFAULT_LIMIT,
    AnswerModel,
    AnyJson,
    CallbackUrl,
    IdempotencyKey,
    IdIn,
    IdOut,
    InstantIn,
    InstantOut,
    Limit,
    MaxAttempts,
    Offset,
    Omittable,
    Payload,
    QueryModel,
    RequestModel,
    Status,
    absent,
)
from app.api.schemas_callback import (
    NEEDS_BODY,
    ONE_BODY,
    Body,
    CallbackFields,
    ContentType,
    Headers,
    Method,
    Priority,
    RetryFields,
    SuccessStatuses,
    Tags,
    Timeout,
)
from app.instants import EXAMPLE

MAX_DELAY_SECONDS = 365 * 86_400

DedupeWindow = Annotated[float, Field(ge=1, le=MAX_DELAY_SECONDS)]
DelaySeconds = Annotated[float, Field(ge=0, le=MAX_DELAY_SECONDS)]


class JobSubmission(CallbackFields):
    """A job to deliver: now, at `run_at`, or `delay_seconds` from now."""

    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [{"not": {"required": ["run_at", "delay_seconds"]}}, *ONE_BODY, NEEDS_BODY],
            "example": {"type": "email.send", "payload": {"to": "ada"}, "callback_url": "https://example.com/hook"},
        }
    )

    run_at: Omittable[InstantIn] = Field(default_factory=absent)
    delay_seconds: Omittable[DelaySeconds] = Field(
        default_factory=absent, description="Counted from when the job is accepted; a year at most."
    )
    idempotency_key: Omittable[IdempotencyKey] = Field(
        default_factory=absent, description="The same key never makes a second job."
    )
    dedupe_window_seconds: Omittable[DedupeWindow] = Field(
        default_factory=absent, description="The key may be used again so long after; left out: never."
    )
    expires_at: Omittable[InstantIn] = Field(
        default_factory=absent, description="Not begun by then, the job is cancelled; the error class says expired."
    )

    @model_validator(mode="after")
    def _one_time(self) -> JobSubmission:
        if self.run_at is not None and self.delay_seconds is not None:
            raise ValueError("give either run_at or delay_seconds, not both")
        return self


class JobChange(RequestModel):
    """What is given is changed, the rest is left. A payload takes the place of a body, and a body that of a payload."""

    model_config = ConfigDict(
        json_schema_extra={
            "minProperties": 1,
            "allOf": [
                *ONE_BODY,
                {"not": {"required": ["body", "content_type"], "properties": {"body": {"type": "null"}}}},
            ],
            "example": {"run_at": EXAMPLE},
        }
    )

    run_at: Omittable[InstantIn] = Field(default_factory=absent)
    callback_url: Omittable[CallbackUrl] = Field(default_factory=absent)
    method: Omittable[Method] = Field(default_factory=absent)
    headers: Omittable[Headers] = Field(default_factory=absent, description="In place of all those before.")
    payload: Omittable[Payload] = Field(default_factory=absent)
    body: Body | None = Field(default_factory=absent, description="null: neither body nor payload.")
    content_type: Omittable[ContentType] = Field(default_factory=absent)
    timeout_seconds: Omittable[Timeout] = Field(default_factory=absent)
    success_statuses: SuccessStatuses | None = Field(default_factory=absent, description="null: 200-299.")
    max_attempts: Omittable[MaxAttempts] = Field(default_factory=absent)
    retry: Omittable[RetryFields] = Field(default_factory=absent, description="The whole policy.")
    on_success_url: CallbackUrl | None = Field(default_factory=absent)
    on_failure_url: CallbackUrl | None = Field(default_factory=absent)
    priority: Omittable[Priority] = Field(default_factory=absent)
    tags: Omittable[Tags] = Field(default_factory=absent, description="In place of all those before.")

    # All but what can be taken away.
    @field_validator(
        *(
            "run_at",
            "callback_url",
            "method",
            "headers",
            "payload",
            "content_type",
            "timeout_seconds",
            "max_attempts",
            "retry",
            "priority",
            "tags",
        ),
        mode="before",
    )
    @classmethod
    def _refuse_null(cls, value: Any) -> Any:
        """Takes the place of RequestModel's, for `*` would be all fields."""
        return super()._refuse_null(value)

    @model_validator(mode="after")
    def _agrees(self) -> JobChange:
        given = self.model_fields_set
        if not given:
            raise ValueError("must hold at least one field to change")
        if {"payload", "body"} <= given:
            raise ValueError("give either payload or body, not both")
        if "content_type" in given and self.body is None:
            raise ValueError("content_type goes with body: a payload is sent as application/json")
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


class SubmittedJob(AnswerModel):
    id: IdOut
    status: Status
    run_at: InstantOut


class JobSummary(AnswerModel):
    """A job as lists show it: without its payload."""

    id: IdOut
    type: str
    queue: str
    priority: int
    tags: list[str]
    method: str
    callback_url: str
    status: Status
    run_at: InstantOut = Field(description="The next attempt: moves with each retry.")
    scheduled_for: InstantOut = Field(description="When it was asked for.")
    expires_at: InstantOut | None
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


class RetryAnswer(AnswerModel):
    """The policy, with the fields that mean something for its backoff."""

    backoff: str
    jitter: str
    base_seconds: float = Field(default=1.0)
    factor: float = Field(default=2.0)
    max_seconds: float = Field(default=900.0)
    delays: list[float] = Field(default_factory=list)
    give_up_after_seconds: float | None = None


class CallbackAnswer(AnswerModel):
    """The call, as it was asked for. `payload` and `body` are null where there is none of the kind."""

    headers: dict[str, str]
    payload: AnyJson
    body: str | None
    content_type: str | None = Field(description="As it is sent; null when there is neither payload nor body.")
    timeout_seconds: float
    success_statuses: list[int | str]
    retry: RetryAnswer
    on_success_url: str | None
    on_failure_url: str | None


class Job(JobSummary, CallbackAnswer):
    """A job whole."""

    follows_job_id: IdOut | None = Field(description="The job whose end this one tells.")
    planned_attempts: list[InstantOut] = Field(
        description="When the next attempts come if each fails at once, before jitter; at most 20."
    )


class JobList(RootModel[list[JobSummary]]):
    """Newest first."""
