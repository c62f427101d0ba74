"""How the programs reach Redis, and how web passes it by while it is away (C15)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import redis
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

logger = structlog.get_logger(__name__)
T = TypeVar("T")

WEB_TIMEOUT_SECONDS = 0.3
LOOP_TIMEOUT_SECONDS = 5.0
BYPASS_SECONDS = 1.0


def make_redis(url: str, timeout_seconds: float) -> redis.Redis:
    """A client that gives up after `timeout_seconds` and never repeats a command by itself: its callers decide that."""
    return redis.Redis.from_url(
        url,
        protocol=2,
        socket_timeout=timeout_seconds,
        socket_connect_timeout=min(timeout_seconds, 2.0),
        **({} if url.startswith("unix:") else {"socket_keepalive": True}),
        retry=Retry(NoBackoff(), 0),
        health_check_interval=0,
    )


class Bypass:
    """Lets web go on without Redis: after a failure it is not asked again for a second, and at most one line a second is logged."""

    def __init__(self) -> None:
        self._closed_until = 0.0

    def call(self, what: str, command: Callable[[], T], otherwise: T) -> T:
        """What `command` returns, or `otherwise` while Redis is away."""
        if time.monotonic() < self._closed_until:
            return otherwise
        try:
            return command()
        except (redis.RedisError, OSError) as error:
            self._closed_until = time.monotonic() + BYPASS_SECONDS
            logger.warning("redis_passed_by", what=what, error=str(error))
            return otherwise
