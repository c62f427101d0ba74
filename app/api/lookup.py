"""What a callback's host resolves to at submit: a bounded pool of real threads, a second at most, answers kept briefly.

The delivery looks again at the address it connects to; this one only tells a caller early.
"""

from __future__ import annotations

import concurrent.futures
import socket
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from gevent import monkey
from gevent.threadpool import ThreadPoolExecutor as NativeThreadPoolExecutor

WAIT_SECONDS = 1.0
KEPT_SECONDS = 5.0
MOST_KEPT = 4096
MOST_THREADS = 16
MOST_WAITING = 256

Addresses = tuple[str, ...]


class _Future(Protocol):
    def result(self, timeout: float | None = None) -> Addresses: ...
    def done(self) -> bool: ...


def resolve(host: str) -> Addresses:
    """Every address of `host`; none when it does not resolve."""
    # Not gevent's getaddrinfo: that would hand the look-up to the hub's few threads, which argon2 needs.
    getaddrinfo: Callable[..., Any] = monkey.get_original("socket", "getaddrinfo")
    try:
        found = getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    return tuple(dict.fromkeys(str(row[4][0]) for row in found))


class Lookups:
    """Look-ups under way and answers of the last seconds, by name: one look-up a name at a time.

    The threads only resolve; all else is done by the callers, since gevent's locks are not for threads of the pool.
    """

    def __init__(self, resolve: Callable[[str], Addresses] = resolve) -> None:
        self._resolve = resolve
        self._lock = threading.Lock()
        self._pool: Any = None
        self._known: dict[str, tuple[_Future, float]] = {}

    def addresses(self, host: str, wait_seconds: float = WAIT_SECONDS) -> Addresses:
        """The addresses of `host`; none when it does not resolve, or not within `wait_seconds`, or too many others wait."""
        future = self._future(host)
        if future is None:
            return ()
        try:
            return future.result(timeout=wait_seconds)
        except (TimeoutError, concurrent.futures.TimeoutError):
            return ()

    def begin(self, hosts: Iterable[str]) -> None:
        """Begins to look up many hosts at once; nobody waits yet."""
        for host in hosts:
            self._future(host)

    def _future(self, host: str) -> _Future | None:
        now = time.monotonic()
        with self._lock:
            known = self._known.get(host)
            if known is not None and _is_kept(known, now):
                return known[0]
            if len(self._known) >= MOST_WAITING:
                self._forget(now)
                if sum(not future.done() for future, _ in self._known.values()) >= MOST_WAITING:
                    return None
            future: _Future = self._threads().submit(self._resolve, host)
            self._known[host] = (future, now + KEPT_SECONDS)
            return future

    def _forget(self, now: float) -> None:
        kept = {name: row for name, row in self._known.items() if _is_kept(row, now)}
        if len(kept) >= MOST_KEPT:
            kept = {name: row for name, row in kept.items() if not row[0].done()}
        self._known = kept

    def _threads(self) -> Any:
        """The pool, made at the first look-up: a process that forks before it keeps none."""
        if self._pool is None:
            is_patched = monkey.is_module_patched("threading")
            self._pool = (NativeThreadPoolExecutor if is_patched else ThreadPoolExecutor)(max_workers=MOST_THREADS)
        return self._pool


def _is_kept(known: tuple[_Future, float], now: float) -> bool:
    return now < known[1] or not known[0].done()
