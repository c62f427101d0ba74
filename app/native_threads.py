"""Threads of the system in whichever program: where gevent drives a process, `threading` only makes greenlets.

What runs there must not take a lock of gevent's: it computes, waits, and returns.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

Result_co = TypeVar("Result_co", covariant=True)
T = TypeVar("T")


class Running(Protocol[Result_co]):
    """What a thread will come to. `result` raises TimeoutError when it takes longer; the thread goes on."""

    def result(self, timeout: float | None = None) -> Result_co: ...
    def done(self) -> bool: ...


class NativeThreads:
    """At most `most` at a time under gevent, where one more waits; elsewhere whoever starts them keeps count."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._pool: Any = None
        self._running: list[Running[Any]] = []

    @property
    def under_way(self) -> int:
        """How many have not ended, those that nobody waits for any more among them."""
        self._running = [running for running in self._running if not running.done()]
        return len(self._running)

    def start(self, function: Callable[..., T], *args: Any) -> Running[T]:
        running: Running[T] = self._start_pooled(function, *args) if _is_gevent() else _start_daemon(function, *args)
        self._running.append(running)
        return running

    def _start_pooled(self, function: Callable[..., T], *args: Any) -> Any:
        # Made here: a process that forks before the first use keeps none.
        if self._pool is None:
            from gevent.threadpool import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(self._most)
        return self._pool.submit(function, *args)


def _start_daemon(function: Callable[..., T], *args: Any) -> Future[T]:
    """A thread that does not hold up the end of the process, as those of the standard library's pool would."""
    running: Future[T] = Future()

    def work() -> None:
        try:
            running.set_result(function(*args))
        except Exception as error:  # noqa: BLE001 - raised again where the result is asked for
            running.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return running


def _is_gevent() -> bool:
    if "gevent.monkey" not in sys.modules:
        return False
    from gevent.monkey import is_module_patched

    return bool(is_module_patched("threading"))
