"""What a queue looks like in requests and answers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, RootModel, field_validator

from app.api.schemas import AnswerModel, InstantOut, MaxAttempts, Omittable, QueryModel, RequestModel, absent, whole
from app.api.schemas_callback import QueueName, Timeout
from app.api.schemas_cron import Reason
from app.queues.changes import Settings
from app.queues.limits import MAX_CONCURRENCY, MAX_PERIOD_SECONDS, MAX_RATE_LIMIT, MIN_PERIOD_SECONDS

Concurrency = Annotated[int, Field(ge=1, le=MAX_CONCURRENCY), BeforeValidator(whole)]
RateLimit = Annotated[int, Field(ge=1, le=MAX_RATE_LIMIT), BeforeValidator(whole)]
Period = Annotated[float, Field(ge=MIN_PERIOD_SECONDS, le=MAX_PERIOD_SECONDS)]


class QueueRate(RequestModel):
    """Within no span of `period_seconds` do more than `limit` calls begin."""

    limit: RateLimit
    period_seconds: Period


class QueueSettings(RequestModel):
    """What holds a queue back, and what its jobs have that do not say. What is null is without."""

    model_config = ConfigDict(json_schema_extra={"example": {"concurrency": 5}})

    concurrency: Concurrency | None = Field(
        default_factory=absent, description="No more calls than this are under way at once."
    )
    rate: QueueRate | None = Field(default_factory=absent)
    paused: Omittable[bool] = Field(
        default_factory=absent, description="Left out: as it is. To give a reason, pause by the call of this name."
    )
    default_max_attempts: MaxAttempts | None = Field(default_factory=absent)
    default_timeout_seconds: Timeout | None = Field(default_factory=absent)
    circuit_breaker: bool | None = Field(
        default_factory=absent,
        description="Whether calls to a host that keeps failing are held back; null: as configured.",
    )

    # All but what can be taken away.
    @field_validator("paused", mode="before")
    @classmethod
    def _refuse_null(cls, value: Any) -> Any:
        """Takes the place of RequestModel's, for `*` would be all fields."""
        return super()._refuse_null(value)

    def settings(self) -> Settings:
        """What was given, null among it."""
        given: Any = self.model_dump(exclude_unset=True, exclude={"rate"})
        if "rate" in self.model_fields_set:
            given["rate_limit"] = None if self.rate is None else self.rate.limit
            given["rate_period_seconds"] = None if self.rate is None else self.rate.period_seconds
        settings: Settings = given
        return settings


class QueuePause(RequestModel):
    """The whole body may be left out."""

    model_config = ConfigDict(openapi_extra={"required": False})  # type: ignore[typeddict-unknown-key]

    reason: Omittable[Reason] = Field(default_factory=absent)


class QueuePurge(RequestModel):
    """The queue's name once more, so that none is purged by a slip."""

    name: QueueName


class QueuePath(QueryModel):
    name: QueueName


class QueueRateAnswer(AnswerModel):
    limit: int
    period_seconds: float


class Queue(AnswerModel):
    """A queue, and what it is doing."""

    name: str
    concurrency: int | None
    rate: QueueRateAnswer | None
    paused: bool
    pause_reason: str | None
    paused_at: InstantOut | None
    paused_by: str | None
    default_max_attempts: int | None
    default_timeout_seconds: float | None
    circuit_breaker: bool | None
    waiting: int = Field(description="Due, and not started.")
    scheduled: int = Field(description="Due later, retries among them.")
    in_flight: int
    rate_used: int = Field(description="Calls begun within the last period; 0 without a rate.")
    oldest_due_at: InstantOut | None = Field(description="Since when the oldest of those that wait is due.")
    oldest_age_seconds: float | None
    created_at: InstantOut
    updated_at: InstantOut


class QueueList(RootModel[list[Queue]]):
    """By name."""


class PurgedCount(AnswerModel):
    cancelled: int = Field(json_schema_extra={"example": 120})
