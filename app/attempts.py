"""What passes between the worker's stages: a claimed job, and what its call came to. Plain data, no stores."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from app.callback import DEFAULT_TIMEOUT_SECONDS, JSON_TYPE, SUCCESS_STATUSES, Headers, Statuses
from app.retry import DEFAULT_POLICY, RetryPolicy

USER_AGENT_PRODUCT = "punctual"
MAX_STORED_BODY_BYTES = 16 * 1024
MAX_READ_BODY_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Claim:
    """One attempt of one job that this worker holds the lease of.

    The policy's give_up_after_seconds counts from `first_due_at`. `is_followed`: somebody is told how the job ends.
    A job of a queue that `is_limited` holds a slot of it; the starts of one that `is_rated` are counted.
    `traceparent` is sent on, unless `headers` hold one; where spans are made it is that of the callback, and `traced_under` the job's.
    `circuit_breaker` is the queue's, None for what the settings say.
    """

    job_id: UUID
    client_id: int
    type: str
    body: bytes | None
    callback_url: str
    queue_generation: int
    attempt: int
    max_attempts: int
    number: int
    due_at: datetime
    claimed_at: datetime
    first_due_at: datetime
    signing_secrets: tuple[str, ...]
    method: str = "POST"
    content_type: str | None = JSON_TYPE
    headers: Headers = ()
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    success_statuses: Statuses = SUCCESS_STATUSES
    policy: RetryPolicy = DEFAULT_POLICY
    is_followed: bool = False
    queue_id: int = 0
    client_name: str = ""
    queue_name: str = ""
    lane: str = ""
    is_limited: bool = False
    is_rated: bool = False
    callback_host: str = ""
    traceparent: str | None = None
    traced_under: str | None = None
    circuit_breaker: bool | None = None

    @property
    def fence(self) -> tuple[UUID, int, int]:
        """What a change of this attempt must still find in the row (C5)."""
        return (self.job_id, self.queue_generation, self.attempt)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call came to. `error_class` None is a success; timings are milliseconds since the call began."""

    started_at: datetime
    finished_at: datetime
    status_code: int | None = None
    error_class: str | None = None
    error: str | None = None
    timings: dict[str, float] = field(default_factory=dict)
    response_headers: tuple[tuple[str, str], ...] = ()
    response_body: str = ""
    response_truncated: bool = False

    @property
    def execution_status(self) -> str:
        if self.error_class is None:
            return "succeeded"
        return {"timeout": "timed_out", "blocked": "blocked", "lost": "lost"}.get(self.error_class, "failed")
