"""The kinds of field every request and answer is made of, and the shape of an error."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, TypeVar
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainValidator,
    StringConstraints,
    WithJsonSchema,
    field_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from app.api.strict_json import Raw
from app.instants import EXAMPLE, parse_instant
from app.models import STATUSES

DEFAULT_LIMIT = 20
MAX_LIMIT = 100
MAX_BIGINT: Final = 2**63 - 1
MAX_ATTEMPTS = 100
ID_EXAMPLE = "019ad0c2-7c4e-7a3b-9d51-0a4f3c2b1e60"

# No control characters, no line separators: what is given here ends up in headers, log lines and pages.
PLAIN_TEXT = r"^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]+$"
# PostgreSQL cannot hold a NUL; line ends are fine.
ANY_BUT_NUL = r"^[^\u0000]*$"
UUID_TEXT = r"^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$"
_NUMBER_TEXT = re.compile(r"-?[0-9]+", re.ASCII)


class _NotNull:
    """Takes null out of the document. A union with SkipJsonSchema[None] would too, but then errors name its branches."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core)
        branches = [branch for branch in schema.pop("anyOf", []) if branch != {"type": "null"}]
        return {**branches[0], **schema} if len(branches) == 1 else schema


T = TypeVar("T")
# May be left out, and is None then, but may not be null.
Omittable = Annotated[T | None, _NotNull()]


def absent() -> None:
    """The default of a field that may be left out but not be null; as a factory, it stays out of the document."""


class RequestModel(BaseModel):
    """A body, or a part of one: nothing unknown, nothing converted, nothing null."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_null(cls, value: Any) -> Any:
        if value is None:
            raise ValueError("must not be null: leave the field out")
        return value


class QueryModel(BaseModel):
    """The query of an address, whose values are texts. What is `repeatable` may be given again: it is read with commas between."""

    repeatable: ClassVar[frozenset[str]] = frozenset()

    model_config = ConfigDict(extra="forbid")


class AnswerModel(BaseModel):
    """What an answer holds: every field, always."""

    model_config = ConfigDict(extra="forbid")


def _instant(value: Any) -> datetime:
    if isinstance(value, str):
        return parse_instant(value)
    raise ValueError(f"must be a text such as {EXAMPLE}")


def whole(value: Any) -> Any:
    # 3.0 is an integer in JSON Schema; the strict mode of pydantic refuses true and "3", as it should.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def number(value: Any) -> int:
    """A number in a query. More digits than any limit has are cut before int() reads them."""
    text = str(whole(value))
    if _NUMBER_TEXT.fullmatch(text) is None:
        raise ValueError("must be a whole number")
    return int(text) if len(text) <= 40 else MAX_BIGINT + 1 if text[0] != "-" else -1


def _uuid(value: Any) -> UUID:
    if not isinstance(value, str) or re.fullmatch(UUID_TEXT, value) is None:
        raise ValueError(f"must be a UUID, such as {ID_EXAMPLE}")
    return UUID(value)


InstantIn = Annotated[
    datetime,
    PlainValidator(_instant),
    WithJsonSchema({"type": "string", "format": "date-time", "example": EXAMPLE}),
]
InstantOut = Annotated[str, Field(json_schema_extra={"format": "date-time", "example": EXAMPLE})]
IdOut = Annotated[str, Field(json_schema_extra={"format": "uuid", "example": ID_EXAMPLE})]
IdIn = Annotated[
    UUID, PlainValidator(_uuid), WithJsonSchema({"type": "string", "format": "uuid", "example": ID_EXAMPLE})
]
JobType = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=PLAIN_TEXT)]
IdempotencyKey = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=PLAIN_TEXT)]
# The bounds stand first: behind a validator they would be missing from the document.
MaxAttempts = Annotated[int, Field(ge=1, le=MAX_ATTEMPTS), BeforeValidator(whole)]
CallbackUrl = Annotated[str, StringConstraints(min_length=1, max_length=2048)]
# The value is kept as the very text that was sent; nothing reads into it.
Payload = Annotated[
    Raw,
    PlainValidator(lambda raw: raw),
    WithJsonSchema({"description": "Any JSON value; delivered byte for byte as sent."}),
]
AnyJson = Annotated[Any, WithJsonSchema({"description": "The value as it was sent."})]
Status = Annotated[str, WithJsonSchema({"type": "string", "enum": list(STATUSES)})]


def _status(value: Any) -> str:
    if value not in STATUSES:
        raise ValueError(f"must be one of {', '.join(STATUSES)}")
    return str(value)


StatusIn = Annotated[str, PlainValidator(_status), WithJsonSchema({"type": "string", "enum": list(STATUSES)})]
Limit = Annotated[
    int,
    Field(ge=1, description=f"At most this many; above {MAX_LIMIT} is taken as {MAX_LIMIT}."),
    BeforeValidator(number),
    AfterValidator(lambda limit: min(limit, MAX_LIMIT)),
]
Offset = Annotated[
    int,
    Field(
        ge=0, le=MAX_BIGINT, description="Leave out this many first. A cursor is faster, and skips and repeats nothing."
    ),
    BeforeValidator(number),
]
EntryId = Annotated[int, Field(ge=0, le=MAX_BIGINT, json_schema_extra={"example": 42}), BeforeValidator(number)]


class JobPath(QueryModel):
    job_id: IdIn


class CronJobPath(QueryModel):
    cron_job_id: EntryId


class ErrorDetail(AnswerModel):
    field: str
    message: str


class ErrorBody(AnswerModel):
    code: str
    message: str
    details: list[ErrorDetail] = Field(default_factory=list)


class Error(AnswerModel):
    """Every answer other than success."""

    error: ErrorBody
