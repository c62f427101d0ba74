"""What a test of a callback looks like in requests and answers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from app.api.schemas import AnswerModel, InstantOut
from app.api.schemas_callback import ONE_BODY, RequestFields
from app.callback import (
    BODYLESS,
    DEFAULT_TIMEOUT_SECONDS,
    JSON_TYPE,
    MIN_TIMEOUT_SECONDS,
    SUCCESS_STATUSES,
    TEXT_TYPE,
    statuses_of,
    statuses_text,
)
from app.callback_url import Target
from app.callbacks.trial import TrialRequest
from app.trials import MAX_TRIAL_SECONDS

EMPTY_PAYLOAD = b"{}"


class TrialFields(RequestFields):
    """A call to make once, now. Left without payload and body, it sends an empty object, and GET and DELETE nothing."""

    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [*ONE_BODY],
            "example": {"callback_url": "https://example.com/hook", "payload": {"to": "ada"}},
        }
    )

    timeout_seconds: Annotated[float, Field(ge=MIN_TIMEOUT_SECONDS, le=MAX_TRIAL_SECONDS)] = Field(
        default=DEFAULT_TIMEOUT_SECONDS, description="For the whole call, name lookup and answer included."
    )

    def request(self, target: Target) -> TrialRequest:
        """What is sent to `target`, which is where callback_url leads."""
        body, content_type = self._body()
        given = self.success_statuses
        return TrialRequest(
            callback_url=target.url,
            method=self.method,
            headers=tuple(self.headers.items()),
            body=body,
            content_type=content_type,
            timeout_seconds=self.timeout_seconds,
            success_statuses=SUCCESS_STATUSES if given is None else statuses_of(statuses_text(given)),
        )

    def _body(self) -> tuple[bytes | None, str | None]:
        if self.body is not None:
            return self.body.encode(), self.content_type or TEXT_TYPE
        if self.payload is not None:
            return self.payload.text.encode(), JSON_TYPE
        return (None, None) if self.method in BODYLESS else (EMPTY_PAYLOAD, JSON_TYPE)


class TrialAnswer(AnswerModel):
    """What the one request came to."""

    status: str = Field(description="succeeded, failed, timed_out or blocked.")
    status_code: int | None
    error_class: str | None
    error: str | None
    timings: dict[str, float] = Field(
        description="Milliseconds since the call began, at the end of each phase it reached: dns, connect, tls, first_byte, total."
    )
    response_headers: list[Any]
    response_body: str = Field(description="At most its first 16 KB.")
    response_truncated: bool
    started_at: InstantOut
    finished_at: InstantOut
