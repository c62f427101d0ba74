"""What an ended attempt means for its job, as data: done, another attempt, or dead. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from app.attempts import Answer, Claim
from app.retry import RetryAt, next_attempt


@dataclass(frozen=True, slots=True)
class Ending:
    """An attempt that ended, and what it makes of its job. `delay_seconds` counts from the moment it is recorded."""

    claim: Claim
    answer: Answer
    next_status: Literal["done", "scheduled", "dead"]
    delay_seconds: float = 0.0
    reason: str | None = None

    @property
    def error(self) -> str | None:
        """The error in words, with why there is no further attempt where the receiver or the policy said so."""
        if self.answer.error_class is None:
            return None
        parts = (self.answer.error, self.reason)
        return " ".join(part for part in parts if part) or self.answer.error_class


def decide(claim: Claim, answer: Answer, now: datetime, rand: float) -> Ending:
    """The ending of one attempt. `rand` in [0, 1) is the jitter."""
    if answer.error_class is None:
        return Ending(claim, answer, "done")
    follows = next_attempt(
        claim.policy,
        claim.attempt,
        claim.max_attempts,
        status_code=answer.status_code,
        error_class=answer.error_class,
        headers=answer.response_headers,
        first_due_at=claim.first_due_at,
        now=now,
        rand=rand,
    )
    if isinstance(follows, RetryAt):
        return Ending(claim, answer, "scheduled", follows.delay_seconds)
    return Ending(claim, answer, "dead", reason=follows.reason)
