"""A stored call in words: its headers as anybody may see them, what counts as success, how it is retried. Pure."""

from __future__ import annotations

from app.callback import Headers, headers_of, statuses_shown
from app.dashboard import header_lines
from app.dashboard.callback_form import Stored
from app.dashboard.formats import duration
from app.retry import RetryPolicy
from app.retry_policy import policy_of

MOST_LISTED = 9
_JITTERS = {"half": ", less a random part of up to half", "full": ", each less a random part of it", "none": ""}


def headers(stored: Stored) -> Headers:
    """Values that may be secrets are hidden."""
    return header_lines.masked(headers_of(stored.headers))


def success(stored: Stored) -> str:
    """200 to 299, 404"""
    return ", ".join(str(part).replace("-", " to ") for part in statuses_shown(stored.success_statuses))


def retries(stored: Stored) -> str:
    """At most 5 attempts, 1 s apart, then …"""
    if stored.max_attempts == 1:
        return "One attempt, and no retry."
    policy = policy_of(stored.retry)
    limit = policy.give_up_after_seconds
    end = "" if limit is None else f" None later than {duration(limit)} after it was first due."
    return f"At most {stored.max_attempts} attempts. {_waits(policy)}{_JITTERS.get(policy.jitter, '')}.{end}"


def random_part(stored: Stored) -> str:
    """What is taken off a planned wait, to go into "Before …what a receiver asks for"."""
    words = {"half": "a random part of up to half of each, and ", "full": "a random part of each, and "}
    return words.get(policy_of(stored.retry).jitter, "")


def _waits(policy: RetryPolicy) -> str:
    base, longest = duration(policy.base_seconds), duration(policy.max_seconds)
    match policy.backoff:
        case "exponential":
            return f"Waits of {base}, then {policy.factor:g} times as long each, {longest} at most"
        case "linear":
            return f"Waits of {base}, then {base} longer each, {longest} at most"
        case "fixed":
            return f"Waits of {base}"
        case _:
            listed = ", ".join(map(duration, policy.delays[:MOST_LISTED]))
            return f"Waits of {listed}{', …' if len(policy.delays) > MOST_LISTED else ''}"
