"""What an attempt to deliver a job looks like in answers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, RootModel

from app.api.schemas import MAX_BIGINT, AnswerModel, InstantOut, JobPath, number


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


class ExecutionPath(JobPath):
    number: Annotated[int, Field(ge=0, le=MAX_BIGINT, json_schema_extra={"example": 1}), BeforeValidator(number)]


class SentRequest(AnswerModel):
    """What an attempt sent."""

    method: str
    url: str
    headers: dict[str, str] = Field(description="Those Punctual sets as well; signatures are made when it is sent.")
    body: str | None
    content_type: str | None


class SentExecution(Execution):
    """One attempt with what it sent."""

    request: SentRequest
    as_curl: str = Field(
        description="A command for a POSIX shell, unsigned and without what may be secret; a long body is left to a file payload.json."
    )


class ExecutionList(RootModel[list[Execution]]):
    """Oldest first."""
