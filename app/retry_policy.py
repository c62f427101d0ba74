"""Retry policies as a job stores them: text in one spelling, read back for each attempt. Pure."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from app.retry import DEFAULT_POLICY, RetryPolicy, delay

MAX_SPAN_SECONDS = 30 * 86_400.0
MAX_GIVE_UP_SECONDS = 365 * 86_400.0
MAX_FACTOR = 1000.0
MAX_DELAYS = 100
BACKOFFS = ("exponential", "linear", "fixed", "list")
JITTERS = ("full", "half", "none")


def text_of(policy: RetryPolicy) -> str | None:
    """The policy as it is stored; None for the default one."""
    return None if policy == DEFAULT_POLICY else json.dumps(asdict(policy), separators=(",", ":"))


@lru_cache(maxsize=1024)
def policy_of(stored: str | None) -> RetryPolicy:
    """The stored policy. Never raises: one that cannot be read or used is the default, so that the job stays retryable."""
    if stored is None:
        return DEFAULT_POLICY
    try:
        values = json.loads(stored)
        policy = RetryPolicy(**{**values, "delays": tuple(values.get("delays", ()))})
        _try(policy)
    except (ArithmeticError, AttributeError, TypeError, ValueError):
        return DEFAULT_POLICY
    return policy


def _try(policy: RetryPolicy) -> None:
    """Raises what would go wrong later, when an attempt is judged or a job is shown."""
    for attempt in range(1, len(policy.delays) + 2):
        delay(policy, attempt, 0.5)
    limit = policy.give_up_after_seconds
    numbers = (policy.base_seconds, policy.factor, policy.max_seconds, 1.0 if limit is None else limit)
    if not all(math.isfinite(number) and number >= 0 for number in numbers):
        raise ValueError("The retry policy holds what is no span.")


def shown(stored: str | None) -> dict[str, Any]:
    """As answers and forms show it: every field that means something for its backoff."""
    policy = policy_of(stored)
    values: dict[str, Any] = {"backoff": policy.backoff}
    if policy.backoff == "list":
        values["delays"] = list(policy.delays)
    else:
        values["base_seconds"] = policy.base_seconds
    if policy.backoff == "exponential":
        values["factor"] = policy.factor
    if policy.backoff in ("exponential", "linear"):
        values["max_seconds"] = policy.max_seconds
    return {**values, "jitter": policy.jitter, "give_up_after_seconds": policy.give_up_after_seconds}
