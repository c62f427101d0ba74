"""Sliding windows in Redis: a client's quota of requests, and the failed keys of one address."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from flask import Response, g

from app.current import punctual, settings
from app.errors import RateLimited
from app.stores import Stores

WINDOW_SECONDS = 60
_SCRIPT = (files("app") / "lua" / "sliding_window.lua").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Window:
    """A sliding window after one look at it. `reset_seconds`: until one more hit is free, rounded up."""

    is_admitted: bool
    limit: int
    remaining: int
    reset_seconds: int

    @property
    def retry_after_seconds(self) -> int:
        return max(1, self.reset_seconds)

    def headers(self) -> dict[str, str]:
        return {
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(self.remaining),
            "RateLimit-Reset": str(self.reset_seconds),
        }


def hit(
    stores: Stores, key: str, limit: int, window_seconds: int = WINDOW_SECONDS, count: bool = True
) -> Window | None:
    """Counts one hit in the window `key` and says whether it was admitted; a refused hit takes no place.

    With `count` false it only looks. None: Redis is away, and nothing is known. The script is atomic, so that hits in
    parallel never pass more than `limit`.
    """
    client = stores.stream.client
    # Made at each call, it costs a SHA-1 of a kilobyte; EVALSHA falls back to EVAL when Redis has forgotten the script.
    script = client.register_script(_SCRIPT)
    args = [limit, window_seconds * 1_000_000, int(count)]
    answer: Any = stores.bypass.call("sliding_window", lambda: script(keys=[key], args=args), None)
    if answer is None:
        return None
    admitted, remaining, microseconds = answer
    return Window(bool(admitted), limit, int(remaining), math.ceil(microseconds / 1_000_000))


def check_quota() -> None:
    """Before each request of the API, once its client is known: counts it, or raises RateLimited.

    Redis away: the request passes, and its answer has no RateLimit headers, since there is nothing true to say.
    """
    stores = punctual()
    limit = g.client_rate_limit or settings().rate_limit_per_minute
    g.quota = window = hit(stores, stores.stream.keys.rate(g.client_id), limit)
    if window is not None and not window.is_admitted:
        raise RateLimited(
            f"This client may make {limit} requests a minute: try again in {window.retry_after_seconds} s.",
            headers={"Retry-After": str(window.retry_after_seconds)},
        )


def add_quota_headers(response: Response) -> Response:
    """After each request of the API: what is left of the client's quota, on good answers and errors alike."""
    window: Window | None = g.get("quota")
    if window is not None:
        response.headers.update(window.headers())
    return response
