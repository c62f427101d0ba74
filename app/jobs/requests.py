"""What a submission asks for, and what became of a call on a job. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from app.callback import DEFAULT_QUEUE, Callback


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest(Callback):
    """A job to be. Neither `run_at` nor `delay_seconds` means now."""

    client_id: int
    type: str
    queue: str = DEFAULT_QUEUE
    run_at: datetime | None = None
    delay_seconds: float | None = None
    idempotency_key: str | None = None
    request_fingerprint: bytes | None = None
    expires_at: datetime | None = None
    dedupe_window_seconds: float | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class Submitted:
    """The job of a submission. `replayed`: made by an earlier request with this key; `conflict`: by a different one."""

    job_id: UUID
    status: str
    run_at: datetime
    outcome: Literal["created", "replayed", "conflict"]


@dataclass(frozen=True, slots=True)
class Changed:
    """Whether a change was made. `unchanged`: there was nothing to do.

    `refused`: the job stands in a `status` it may not be changed from, or `reason`, a sentence, says what else is in the way.
    """

    outcome: Literal["changed", "unchanged", "refused", "missing"]
    status: str | None = None
    reason: str | None = None
