"""What a cron entry looks like in requests and answers."""

from __future__ import annotations

import unicodedata
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, RootModel, StringConstraints
from pydantic.json_schema import SkipJsonSchema

from app.api.schemas import (
    DEFAULT_ATTEMPTS,
    MAX_LIMIT,
    PLAIN_TEXT,
    AnswerModel,
    AnyJson,
    CallbackUrl,
    EntryId,
    InstantIn,
    InstantOut,
    JobType,
    Limit,
    MaxAttempts,
    Offset,
    Payload,
    QueryModel,
    RequestModel,
    absent,
    whole,
)

MAX_PREVIEW = 100
DEFAULT_PREVIEW = 5
MAX_NAME = 128


def _composed(name: str) -> str:
    """The name in Unicode's composed form (NFC), so that two spellings of one name are one. It can be longer."""
    name = unicodedata.normalize("NFC", name)
    if len(name) > MAX_NAME:
        raise ValueError(f"must have at most {MAX_NAME} characters in Unicode's composed form")
    return name


CronExpression = Annotated[
    str, StringConstraints(min_length=1, max_length=255), Field(json_schema_extra={"example": "30 2 * * *"})
]
Timezone = Annotated[
    str, StringConstraints(min_length=1, max_length=64), Field(json_schema_extra={"example": "Europe/Berlin"})
]
EntryName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_NAME, pattern=PLAIN_TEXT),
    AfterValidator(_composed),
    Field(description="Names one entry of this client."),
]


class JobTemplate(RequestModel):
    """What each job of the entry is made from."""

    type: JobType
    payload: Payload
    callback_url: CallbackUrl
    max_attempts: MaxAttempts = DEFAULT_ATTEMPTS


class CronJobCreation(RequestModel):
    """A schedule, and the job to make each time."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "name": "nightly report",
                "cron_expression": "30 2 * * *",
                "timezone": "Europe/Berlin",
                "job_template": {"type": "report", "payload": {}, "callback_url": "https://example.com/hook"},
            }
        }
    )

    cron_expression: CronExpression
    job_template: JobTemplate
    timezone: Timezone = "UTC"
    name: EntryName | SkipJsonSchema[None] = Field(default_factory=absent)


class CronJobChange(RequestModel):
    """What is given is changed, the rest is left. A job_template replaces the whole one before it."""

    enabled: bool | SkipJsonSchema[None] = Field(default_factory=absent)
    cron_expression: CronExpression | SkipJsonSchema[None] = Field(default_factory=absent)
    timezone: Timezone | SkipJsonSchema[None] = Field(default_factory=absent)
    job_template: JobTemplate | SkipJsonSchema[None] = Field(default_factory=absent)
    name: EntryName | SkipJsonSchema[None] = Field(default_factory=absent)


class CronPreview(RequestModel):
    """The times an expression names, without keeping it."""

    cron_expression: CronExpression
    timezone: Timezone = "UTC"
    after: InstantIn | SkipJsonSchema[None] = Field(default_factory=absent, description="Now, when it is left out.")
    count: Annotated[int, Field(ge=1, le=MAX_PREVIEW), BeforeValidator(whole)] = DEFAULT_PREVIEW


class CronJobsQuery(QueryModel):
    limit: Limit = MAX_LIMIT
    offset: Offset = 0
    cursor: EntryId | SkipJsonSchema[None] = Field(
        default_factory=absent, description="Only what comes after the entry with this id; the Link header has it."
    )


class CreatedCronJob(AnswerModel):
    id: int = Field(json_schema_extra={"example": 42})


class JobTemplateAnswer(AnswerModel):
    type: str
    payload: AnyJson
    callback_url: str
    max_attempts: int


class CronJob(AnswerModel):
    """A cron entry. `next_run_at` is null while it is disabled."""

    id: int
    name: str | None
    cron_expression: str
    timezone: str
    job_template: JobTemplateAnswer
    enabled: bool
    next_run_at: InstantOut | None
    last_run_at: InstantOut | None
    disabled_reason: str | None


class CronJobList(RootModel[list[CronJob]]):
    """Newest first."""


class CronTimes(AnswerModel):
    next: list[InstantOut]
    description: str = Field(json_schema_extra={"example": "At 02:30 AM"})
