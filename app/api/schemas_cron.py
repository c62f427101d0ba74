"""What a cron entry looks like in requests."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StringConstraints,
    WithJsonSchema,
    field_validator,
)

from app.api.schemas import (
    ANY_BUT_NUL,
    DEFAULT_LIMIT,
    MAX_LIMIT,
    PLAIN_TEXT,
    EntryId,
    InstantIn,
    Limit,
    Offset,
    Omittable,
    QueryModel,
    RequestModel,
    absent,
    whole,
)
from app.api.schemas_callback import NEEDS_BODY, ONE_BODY, CallbackFields
from app.cron_entries.definition import MAX_DESCRIPTION, MAX_NAME
from app.models.cron import (
    CATCH_UP_POLICIES,
    MAX_CATCH_UP_WINDOW_SECONDS,
    MAX_JITTER_SECONDS,
    OVERLAP_POLICIES,
)

MAX_PREVIEW = 100
DEFAULT_PREVIEW = 5


def _composed(name: str) -> str:
    """The name in Unicode's composed form (NFC), so that two spellings of one name are one. It can be longer."""
    name = unicodedata.normalize("NFC", name)
    if len(name) > MAX_NAME:
        raise ValueError(f"must have at most {MAX_NAME} characters in Unicode's composed form")
    return name


def _check(allowed: tuple[str, ...]) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return str(value)

    return check


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
Description = Annotated[str, StringConstraints(max_length=MAX_DESCRIPTION, pattern=ANY_BUT_NUL)]
Reason = Annotated[
    str,
    StringConstraints(max_length=MAX_DESCRIPTION, pattern=ANY_BUT_NUL),
    Field(description="Why, for whoever looks at it later."),
]
Overlap = Annotated[
    str,
    PlainValidator(_check(OVERLAP_POLICIES)),
    WithJsonSchema(
        {
            "type": "string",
            "enum": list(OVERLAP_POLICIES),
            "description": "When a time comes while the entry's last job has not finished: run all the same, skip it, keep one "
            "(the newest) for when the job ends, or cancel the job that is in the way.",
        }
    ),
]
CatchUp = Annotated[
    str,
    PlainValidator(_check(CATCH_UP_POLICIES)),
    WithJsonSchema(
        {
            "type": "string",
            "enum": list(CATCH_UP_POLICIES),
            "description": "What runs of the times that no scheduler fired within a minute: the newest one, all (the newest "
            "100), or none.",
        }
    ),
]
CatchUpWindow = Annotated[
    int,
    Field(ge=0, le=MAX_CATCH_UP_WINDOW_SECONDS, description="How old a missed time may be and still be caught up."),
    BeforeValidator(whole),
]
Jitter = Annotated[
    int,
    Field(
        ge=0,
        le=MAX_JITTER_SECONDS,
        description="Runs this much later than planned at most: by an offset that is always the same for one entry.",
    ),
    BeforeValidator(whole),
]
StartsAt = Annotated[InstantIn, Field(description="No time before this one is planned.")]
EndsAt = Annotated[InstantIn, Field(description="No time after this one is planned.")]


class JobTemplate(CallbackFields):
    """What each job of the entry is made from. One of payload and body is needed, but for GET and DELETE."""

    model_config = ConfigDict(json_schema_extra={"allOf": [*ONE_BODY, NEEDS_BODY]})


class CronJobDefinition(RequestModel):
    """A schedule, the job to make each time, and what happens when times overlap or are missed."""

    cron_expression: CronExpression
    job_template: JobTemplate
    timezone: Timezone = "UTC"
    name: Omittable[EntryName] = Field(default_factory=absent)
    description: Omittable[Description] = Field(default_factory=absent)
    overlap: Overlap = "skip"
    catch_up: CatchUp = "one"
    catch_up_window_seconds: CatchUpWindow = 3600
    starts_at: Omittable[StartsAt] = Field(default_factory=absent)
    ends_at: Omittable[EndsAt] = Field(default_factory=absent)
    jitter_seconds: Jitter = 0
    enabled: Omittable[bool] = Field(default_factory=absent, description="false pauses it.")


class CronJobCreation(CronJobDefinition):
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


class CronJobChange(RequestModel):
    """What is given is changed, the rest is left. A job_template replaces the whole one before it."""

    enabled: Omittable[bool] = Field(default_factory=absent)
    cron_expression: Omittable[CronExpression] = Field(default_factory=absent)
    timezone: Omittable[Timezone] = Field(default_factory=absent)
    job_template: Omittable[JobTemplate] = Field(default_factory=absent)
    name: Omittable[EntryName] = Field(default_factory=absent)
    description: Description | None = Field(default_factory=absent)
    overlap: Omittable[Overlap] = Field(default_factory=absent)
    catch_up: Omittable[CatchUp] = Field(default_factory=absent)
    catch_up_window_seconds: Omittable[CatchUpWindow] = Field(default_factory=absent)
    starts_at: StartsAt | None = Field(default_factory=absent)
    ends_at: EndsAt | None = Field(default_factory=absent)
    jitter_seconds: Omittable[Jitter] = Field(default_factory=absent)

    # All but description, starts_at and ends_at, which can be taken away.
    @field_validator(
        *("enabled", "cron_expression", "timezone", "job_template", "name", "overlap", "catch_up"),
        *("catch_up_window_seconds", "jitter_seconds"),
        mode="before",
    )
    @classmethod
    def _refuse_null(cls, value: Any) -> Any:
        """Takes the place of RequestModel's, for `*` would be all fields."""
        return super()._refuse_null(value)


class CronPause(RequestModel):
    """The whole body may be left out."""

    model_config = ConfigDict(openapi_extra={"required": False})  # type: ignore[typeddict-unknown-key]

    reason: Omittable[Reason] = Field(default_factory=absent)


class CronBackfill(RequestModel):
    """The nominal times to run, first and last included."""

    model_config = ConfigDict(validate_by_alias=True)

    first: InstantIn = Field(alias="from")
    last: InstantIn = Field(alias="to")
    dry_run: bool = False


class CronPreview(RequestModel):
    """The times an expression names, without keeping it."""

    cron_expression: CronExpression
    timezone: Timezone = "UTC"
    after: Omittable[InstantIn] = Field(default_factory=absent, description="Now, when it is left out.")
    count: Annotated[int, Field(ge=1, le=MAX_PREVIEW), BeforeValidator(whole)] = DEFAULT_PREVIEW


class CronJobNamePath(QueryModel):
    name: EntryName


class CronJobsQuery(QueryModel):
    limit: Limit = MAX_LIMIT
    offset: Offset = 0
    cursor: Omittable[EntryId] = Field(
        default_factory=absent, description="Only what comes after the entry with this id; the Link header has it."
    )


class CronOccurrencesQuery(QueryModel):
    limit: Limit = DEFAULT_LIMIT
    offset: Offset = 0
    cursor: Omittable[InstantIn] = Field(
        default_factory=absent, description="Only nominal times before this one; the Link header has it."
    )
