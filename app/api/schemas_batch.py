"""Many jobs in one request: an array, or a JSON object a line, each item read and judged by itself."""

from __future__ import annotations

from dataclasses import dataclass
from json import JSONDecodeError, JSONDecoder
from typing import Any

from flask import request
from pydantic import ConfigDict, Field, RootModel

from app.api.reading import KEPT, body_bytes, validated
from app.api.schemas import AnswerModel, ErrorBody, IdOut, InstantOut, Omittable, Status, absent
from app.api.schemas_jobs import JobSubmission
from app.api.strict_json import NotStrictJson, parse
from app.errors import InvalidRequest, UnsupportedMediaType

MAX_JOBS = 1000
MAX_BYTES = 10 << 20
LINES = ("application/x-ndjson", "application/jsonl", "application/ndjson")
_BLANK = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Batch:
    """The items in their order: what one asks for, or why it cannot be taken."""

    items: list[JobSubmission | InvalidRequest]


class JobBatch(RootModel[list[JobSubmission]]):
    """Up to 1,000 jobs, 10 MiB in all. As JSON Lines (`application/x-ndjson`) a job a line."""

    model_config = ConfigDict(json_schema_extra={"maxItems": MAX_JOBS, "minItems": 1})

    @classmethod
    def from_request(cls) -> Batch:
        """Raises InvalidRequest for what is no list at all; an item that is wrong spoils no other."""
        if request.mimetype not in ("application/json", *LINES):
            raise UnsupportedMediaType(
                "Send an array with `Content-Type: application/json`, or a job a line with `application/x-ndjson`."
            )
        text = _decoded(body_bytes(MAX_BYTES))
        texts = _lines(text) if request.mimetype in LINES else _items(text)
        if not 1 <= len(texts) <= MAX_JOBS:
            raise InvalidRequest(f"The batch holds {len(texts):,} jobs: 1 to {MAX_JOBS:,} are taken at a time.")
        return Batch([_item(each) for each in texts])


class BatchResult(AnswerModel):
    """What became of one item. `error` only where it made no job, and found none."""

    result: str = Field(json_schema_extra={"enum": ["created", "replayed", "conflict", "invalid"]})
    id: Omittable[IdOut] = Field(default_factory=absent)
    status: Omittable[Status] = Field(default_factory=absent)
    run_at: Omittable[InstantOut] = Field(default_factory=absent)
    error: Omittable[ErrorBody] = Field(default_factory=absent)


class BatchResults(RootModel[list[BatchResult]]):
    """One for each item, in their order."""


def _decoded(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"The body is not UTF-8: see the byte at {error.start}.") from None


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip(_BLANK)]


def _items(text: str) -> list[str]:
    """The texts of an array's items, found by the standard library's scanner; what each of them holds is judged later."""
    decoder, at, found = JSONDecoder(), _skip(text, 0), list[str]()
    if text[at : at + 1] != "[":
        raise InvalidRequest("The body must be a JSON array of jobs.")
    at = _skip(text, at + 1)
    try:
        while text[at : at + 1] != "]":
            _, end = decoder.raw_decode(text, at)
            found.append(text[at:end])
            at = _skip(text, end)
            if text[at : at + 1] == ",":
                at = _skip(text, at + 1)
                if text[at : at + 1] == "]":
                    raise JSONDecodeError("A comma before the end of the array", text, at)
            elif text[at : at + 1] != "]":
                raise JSONDecodeError("Expecting ',' or ']'", text, at)
        if (at := _skip(text, at + 1)) != len(text):
            raise JSONDecodeError("Text after the end of the array", text, at)
    except JSONDecodeError as error:
        raise InvalidRequest(
            f"The body is not JSON: {error.msg}, at line {error.lineno}, column {error.colno}."
        ) from None
    except (RecursionError, ValueError):
        raise InvalidRequest(
            "The body is not JSON that can be read: nested too deep, or a number of too many digits."
        ) from None
    return found


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANK:
        at += 1
    return at


def _item(text: str) -> JobSubmission | InvalidRequest:
    try:
        value: Any = parse(text.encode("utf-8", "surrogatepass"), KEPT)
        if not isinstance(value, dict):
            return InvalidRequest("The item must be a JSON object.")
        return validated(JobSubmission, value)
    except NotStrictJson as error:
        return InvalidRequest(str(error).replace("The body", "The item", 1))
    except InvalidRequest as error:
        return error
