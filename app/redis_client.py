"""How the programs reach Redis, and how web passes it by while it is away (C15)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast
from urllib.parse import SplitResult, unquote, urlsplit

import redis
import structlog
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import RedisClusterException
from redis.retry import Retry
from redis.sentinel import Sentinel

logger = structlog.get_logger(__name__)
T = TypeVar("T")

DISTRIBUTED = ("redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel")
WEB_TIMEOUT_SECONDS = 0.3
LOOP_TIMEOUT_SECONDS = 5.0
BYPASS_SECONDS = 1.0


def make_redis(url: str, timeout_seconds: float) -> redis.Redis:
    """A client that gives up after `timeout_seconds` and never repeats a command by itself: its callers decide that.

    Beside what redis-py knows: redis+cluster://host:port,host:port for a Cluster (the keys of a prefix lie in one slot), and
    redis+sentinel://host:port,host:port/name for the master of that name; rediss+… with TLS. Raises ValueError.
    """
    options: dict[str, Any] = {
        "protocol": 2,
        "socket_timeout": timeout_seconds,
        "socket_connect_timeout": min(timeout_seconds, 2.0),
    }
    retry = Retry(NoBackoff(), 0)
    scheme = url.partition(":")[0]
    if scheme == "unix":
        return redis.Redis.from_url(url, **options, retry=retry, health_check_interval=0)
    options["socket_keepalive"] = True
    if scheme not in DISTRIBUTED:
        return redis.Redis.from_url(url, **options, retry=retry, health_check_interval=0)
    parts, nodes = _nodes(url)
    options |= {
        "username": _plain(parts.username),
        "password": _plain(parts.password),
        "ssl": scheme.startswith("rediss"),
    }
    if scheme.endswith("cluster"):
        # A node that moved is asked once more where it says: without that, nothing can be reached after a failover.
        startup = [ClusterNode(host, port) for host, port in nodes]  # type: ignore[no-untyped-call]
        return cast(redis.Redis, Cluster(startup_nodes=startup, retry=Retry(NoBackoff(), 1), **options))
    name, _, database = parts.path.strip("/").partition("/")
    sentinel_options = {k: v for k, v in options.items() if k not in ("username", "password")}
    sentinel = Sentinel(nodes, sentinel_kwargs=sentinel_options)  # type: ignore[no-untyped-call]
    options |= {"db": int(database or 0), "retry": retry}
    master: redis.Redis = sentinel.master_for(name, **options)  # type: ignore[no-untyped-call]
    return master


def _nodes(url: str) -> tuple[SplitResult, list[tuple[str, int]]]:
    """The address with its first node, and all of them. Raises ValueError."""
    parts = urlsplit(url)
    credentials, _, places = parts.netloc.rpartition("@")
    nodes = [urlsplit(f"//{place}") for place in places.split(",")]
    default = 26379 if "sentinel" in parts.scheme else 6379
    if not all(node.hostname for node in nodes) or ("sentinel" in parts.scheme) != bool(parts.path.strip("/")):
        raise ValueError("give the nodes as host:port,host:port, and after them /name for a Sentinel's master alone")
    first = parts._replace(netloc=f"{credentials}@{nodes[0].netloc}" if credentials else nodes[0].netloc)
    return first, [(str(node.hostname), node.port or default) for node in nodes]


def _plain(text: str | None) -> str | None:
    return None if text is None else unquote(text)


class Cluster(RedisCluster):
    """What RedisCluster tells in errors of its own kind is told as a connection that is away, which every caller knows."""

    def execute_command(self, *arguments: Any, **options: Any) -> Any:
        with _as_away():
            return super().execute_command(*arguments, **options)  # type: ignore[no-untyped-call]

    def pipeline(self, *arguments: Any, **options: Any) -> Any:
        made = super().pipeline(*arguments, **options)  # type: ignore[no-untyped-call]
        execute = made.execute

        def executed(*given: Any, **more: Any) -> Any:
            with _as_away():
                return execute(*given, **more)

        made.execute = executed
        return made


@contextmanager
def _as_away() -> Iterator[None]:
    try:
        yield
    except RedisClusterException as error:
        raise redis.ConnectionError(str(error)) from error


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
