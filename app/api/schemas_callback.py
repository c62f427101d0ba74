"""What a call looks like in requests: the same fields for a job, for the template of a cron entry, and for a test."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from app.api.schemas import (
    ANY_BUT_NUL,
    PLAIN_TEXT,
    CallbackUrl,
    JobType,
    MaxAttempts,
    Omittable,
    Payload,
    RequestModel,
    absent,
    whole,
)
from app.callback import (
    BODYLESS,
    DEFAULT_ATTEMPTS,
    DEFAULT_METHOD,
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    DEFAULT_TIMEOUT_SECONDS,
    MAX_HEADER_VALUE,
    MAX_HEADERS,
    MAX_PRIORITY,
    MAX_STATUS,
    MAX_TIMEOUT_SECONDS,
    MIN_PRIORITY,
    MIN_STATUS,
    MIN_TIMEOUT_SECONDS,
    check_headers,
    statuses_text,
)
from app.retry import RetryPolicy
from app.retry_policy import MAX_DELAYS, MAX_FACTOR, MAX_GIVE_UP_SECONDS, MAX_SPAN_SECONDS

MAX_STATUSES = 100
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_CONTENT_TYPE = rf"{_TOKEN}/{_TOKEN}( *;[ -~]*)?"
_STATUSES = r"^([2-5][0-9][0-9](-[2-5][0-9][0-9])?|[2-5]xx)$"


def _headers(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise ValueError('must be an object of texts, such as {"X-Tenant": "7"}')
    check_headers(value.items())
    return value


def _statuses(value: Any) -> list[int | str]:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_STATUSES:
        raise ValueError(f'must be a list of 1 to {MAX_STATUSES} statuses, such as [204, 404] or ["200-299"]')
    given = [whole(item) for item in value]
    statuses_text(given)
    return given


def _content_type(value: str) -> str:
    if re.fullmatch(_CONTENT_TYPE, value) is None:
        raise ValueError("must be a media type, such as application/xml or text/plain; charset=utf-8")
    return value


def _once(value: list[str]) -> list[str]:
    return list(dict.fromkeys(value))


Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Headers = Annotated[
    dict[str, str],
    PlainValidator(_headers),
    WithJsonSchema(
        {
            "type": "object",
            "maxProperties": MAX_HEADERS,
            "additionalProperties": {
                "type": "string",
                "maxLength": MAX_HEADER_VALUE,
                "pattern": "^[\\u0020-\\u007e\\u00a0-\\u00ff]*$",
            },
            "description": "Sent as they are, beside those that Punctual sets itself; an empty value is sent empty.",
            "example": {"X-Tenant": "7"},
        }
    ),
]
SuccessStatuses = Annotated[
    list[int | str],
    PlainValidator(_statuses),
    WithJsonSchema(
        {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_STATUSES,
            "items": {
                "anyOf": [
                    {"type": "integer", "minimum": MIN_STATUS, "maximum": MAX_STATUS},
                    {"type": "string", "pattern": _STATUSES},
                ]
            },
            "description": "Which statuses are a success: numbers and ranges. Left out: 200-299.",
            "example": ["200-299", 404],
        }
    ),
]
Body = Annotated[str, StringConstraints(pattern=ANY_BUT_NUL)]
ContentType = Annotated[
    str,
    StringConstraints(max_length=255),
    AfterValidator(_content_type),
    Field(json_schema_extra={"pattern": f"^{_CONTENT_TYPE}$", "example": "application/xml"}),
]
Timeout = Annotated[float, Field(ge=MIN_TIMEOUT_SECONDS, le=MAX_TIMEOUT_SECONDS)]
QueueName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=64, pattern=PLAIN_TEXT),
    Field(description="Made on first use. What its limits hold back waits."),
]
Priority = Annotated[
    int,
    Field(ge=MIN_PRIORITY, le=MAX_PRIORITY, description="9 goes first; a level is a head start of five minutes."),
    BeforeValidator(whole),
]
Tag = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=PLAIN_TEXT)]
Tags = Annotated[list[Tag], Field(max_length=10), AfterValidator(_once)]
Span = Annotated[float, Field(ge=0, le=MAX_SPAN_SECONDS)]


class RetryFields(RequestModel):
    """How long to wait after each failed attempt, in seconds, and when to give up."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"properties": {"backoff": {"enum": ["list"]}}, "required": ["backoff", "delays"]},
                {
                    "properties": {"backoff": {"enum": ["exponential", "linear", "fixed"]}},
                    "not": {"required": ["delays"]},
                },
            ],
            "example": {
                "backoff": "exponential",
                "base_seconds": 2,
                "factor": 3,
                "max_seconds": 3600,
                "jitter": "half",
            },
        }
    )

    backoff: Literal["exponential", "linear", "fixed", "list"] = Field(
        default="exponential",
        description="exponential: base x factor^(attempt - 1). linear: base x attempt. fixed: base. list: delays, the last "
        "one again and again.",
    )
    base_seconds: Span = 1.0
    factor: Annotated[float, Field(ge=1, le=MAX_FACTOR)] = 2.0
    max_seconds: Span = Field(default=900.0, description="No longer than this, for exponential and linear.")
    jitter: Literal["full", "half", "none"] = Field(
        default="half", description="Of a wait d: full 0 to d, half d/2 to d, none d."
    )
    delays: Omittable[Annotated[list[Span], Field(min_length=1, max_length=MAX_DELAYS)]] = Field(default_factory=absent)
    give_up_after_seconds: Omittable[Annotated[float, Field(gt=0, le=MAX_GIVE_UP_SECONDS)]] = Field(
        default_factory=absent, description="Counted from when the job was first due; max_attempts ends it as well."
    )

    @model_validator(mode="after")
    def _delays_of_a_list(self) -> RetryFields:
        if (self.backoff == "list") != (self.delays is not None):
            raise ValueError('must have delays with "backoff": "list", and only then')
        return self

    def policy(self) -> RetryPolicy:
        return RetryPolicy(**{**self.model_dump(), "delays": tuple(self.delays or ())})


class RequestFields(RequestModel):
    """What is sent, where to, and what counts as success."""

    callback_url: CallbackUrl = Field(description="Where it is delivered: a public http or https address.")
    method: Method = DEFAULT_METHOD
    headers: Headers = Field(default_factory=dict)
    payload: Omittable[Payload] = Field(default_factory=absent)
    body: Omittable[Body] = Field(
        default_factory=absent, description="In place of a payload: any text, sent as it stands, in UTF-8."
    )
    content_type: Omittable[ContentType] = Field(
        default_factory=absent, description="What the body is; plain text when it is left out."
    )
    timeout_seconds: Omittable[Timeout] = Field(
        default_factory=absent,
        description="For the whole call, name lookup and answer included. Left out: the queue's, or else "
        f"{DEFAULT_TIMEOUT_SECONDS:g}.",
    )
    success_statuses: Omittable[SuccessStatuses] = Field(default_factory=absent)

    @model_validator(mode="after")
    def _one_body(self) -> RequestFields:
        if self.payload is not None and self.body is not None:
            raise ValueError("give either payload or body, not both")
        if self.content_type is not None and self.body is None:
            raise ValueError("content_type goes with body: a payload is sent as application/json")
        return self


# As the document says which of the two is needed, and when.
ONE_BODY: list[dict[str, Any]] = [
    {"not": {"required": ["payload", "body"]}},
    {"anyOf": [{"required": ["body"]}, {"not": {"required": ["content_type"]}}]},
]
NEEDS_BODY: dict[str, Any] = {
    "anyOf": [
        {"required": ["payload"]},
        {"required": ["body"]},
        {"properties": {"method": {"enum": list(BODYLESS)}}, "required": ["method"]},
    ]
}


class Typed(RequestModel):
    """The field that stands first."""

    type: JobType = Field(description="What kind of job it is, for the receiver and for people.")


class CallbackFields(RequestFields, Typed):
    """A call with its attempts, and whom to tell how it ended. One of payload and body is needed, but for GET and DELETE."""

    max_attempts: Omittable[MaxAttempts] = Field(
        default_factory=absent, description=f"Left out: the queue's, or else {DEFAULT_ATTEMPTS}."
    )
    retry: RetryFields = Field(default_factory=RetryFields)
    queue: QueueName = DEFAULT_QUEUE
    priority: Priority = DEFAULT_PRIORITY
    tags: Tags = Field(default_factory=list, description="For finding jobs again.")
    on_success_url: Omittable[CallbackUrl] = Field(
        default_factory=absent, description="A job of its own tells this address when the job is done."
    )
    on_failure_url: Omittable[CallbackUrl] = Field(
        default_factory=absent, description="A job of its own tells this address when the job is dead."
    )
