"""Looks host names up beside the deliverer: many at once, one lookup a name at a time, answers kept for a while."""

from __future__ import annotations

import socket
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TypeVar

import structlog

from app.callbacks.addresses import Lookup, Resolution, look_up

logger = structlog.get_logger()

KEEP_SECONDS = 30.0
# Long enough that a burst to a name that does not exist costs one lookup, short enough that a mended name works at once.
KEEP_FAILURE_SECONDS = 1.0
# A lookup cannot be interrupted, so a hanging one holds its thread for as long as the system's resolver tries.
MAX_THREADS = 1024
MAX_SUSPECTS = 256
SUSPECT_AFTER_SECONDS = 2.0
SUSPECT_FOR_SECONDS = 120.0
MAX_NAMES = 10_000
IDLE_SECONDS = 10.0

OnDone = Callable[[str, Resolution], None]
_Kept = TypeVar("_Kept")


class Resolver:
    """A pool of threads that grows with the names asked for at one moment, up to `max_threads`.

    One thread a name is what keeps names apart: behind a bounded queue, a few that hang would hold all others. Names
    that were slow a short while ago have a share of the threads and no more, so that they cannot fill the pool twice.
    """

    def __init__(
        self,
        *,
        lookup: Lookup = socket.getaddrinfo,
        max_threads: int = MAX_THREADS,
        max_suspects: int = MAX_SUSPECTS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lookup = lookup
        self._max_threads = max_threads
        self._max_suspects = max_suspects
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._asking: dict[str, list[OnDone]] = {}
        self._queue: deque[str] = deque()
        self._suspect_queue: deque[str] = deque()
        self._answers: OrderedDict[str, tuple[float, Resolution]] = OrderedDict()
        self._suspect_until: OrderedDict[str, float] = OrderedDict()
        self._threads = self._idle = self._suspects_running = 0
        self._is_closed = False

    def cached(self, host: str) -> Resolution | None:
        """The answer that is still fresh, or None. Never waits for a lookup."""
        with self._changed:
            return self._fresh(host)

    def resolve(self, host: str, on_done: OnDone) -> None:
        """Calls `on_done(host, resolution)` once: at once when the answer is known, else from a thread of the pool."""
        with self._changed:
            answer = self._fresh(host)
            if answer is None:
                self._ask(host, on_done)
        if answer is not None:
            on_done(host, answer)

    def close(self) -> None:
        """Lets idle threads end. A lookup under way ends by itself: its thread does not keep the process."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _fresh(self, host: str) -> Resolution | None:
        kept = self._answers.get(host)
        return kept[1] if kept is not None and self._monotonic() < kept[0] else None

    def _ask(self, host: str, on_done: OnDone) -> None:
        waiting = self._asking.get(host)
        if waiting is not None:
            waiting.append(on_done)
            return
        self._asking[host] = [on_done]
        is_suspect = self._suspect_until.get(host, 0.0) > self._monotonic()
        (self._suspect_queue if is_suspect else self._queue).append(host)
        self._changed.notify()
        if len(self._queue) + len(self._suspect_queue) > self._idle and self._threads < self._max_threads:
            self._grow()

    def _grow(self) -> None:
        self._threads += 1
        try:
            threading.Thread(target=self._work, name="resolver", daemon=True).start()
        except RuntimeError:
            # The system gives no more threads: those there are go on, and the name waits for one of them.
            self._threads -= 1
            logger.warning("resolver thread refused", threads=self._threads)

    def _work(self) -> None:
        while (taken := self._take()) is not None:
            host, is_suspect = taken
            began = self._monotonic()
            resolution = look_up(host, self._lookup)
            for on_done in self._keep(host, resolution, is_suspect, self._monotonic() - began):
                try:
                    on_done(host, resolution)
                except Exception:
                    logger.exception("resolver answer not taken", host=host)

    def _take(self) -> tuple[str, bool] | None:
        """The next name and whether it is a suspect; None when this thread has nothing to do any more."""
        with self._changed:
            while not self._is_closed:
                if self._queue:
                    return self._queue.popleft(), False
                if self._suspect_queue and self._suspects_running < self._max_suspects:
                    self._suspects_running += 1
                    return self._suspect_queue.popleft(), True
                self._idle += 1
                is_called = self._changed.wait(IDLE_SECONDS)
                self._idle -= 1
                if not is_called and not self._queue:
                    break
            self._threads -= 1
            return None

    def _keep(self, host: str, resolution: Resolution, was_suspect: bool, took_seconds: float) -> list[OnDone]:
        with self._changed:
            now = self._monotonic()
            kept_for = KEEP_SECONDS if resolution.error is None else KEEP_FAILURE_SECONDS
            _remember(self._answers, host, (now + kept_for, resolution))
            if took_seconds > SUSPECT_AFTER_SECONDS:
                _remember(self._suspect_until, host, now + SUSPECT_FOR_SECONDS)
            else:
                self._suspect_until.pop(host, None)
            if was_suspect:
                self._suspects_running -= 1
            return self._asking.pop(host)


def _remember(kept: OrderedDict[str, _Kept], host: str, value: _Kept) -> None:
    kept[host] = value
    kept.move_to_end(host)
    if len(kept) > MAX_NAMES:
        kept.popitem(last=False)
