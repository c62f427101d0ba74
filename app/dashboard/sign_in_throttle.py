"""Slows down who guesses passwords: ten failures in five minutes for a name and an address, a hundred for an address."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import deque

from app.client_address import throttled_as
from app.rate_limit import hit
from app.stores import Stores

WINDOW_SECONDS = 300
FAILURES_PER_NAME = 10
# Somebody who tries one password on many names meets no limit of a name.
FAILURES_PER_ADDRESS = 100
ANY_NAME = "*"
LOCAL_WINDOWS = 10_000


class LocalWindows:
    """The same sliding windows within this process, for as long as Redis is away."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hits: dict[str, deque[float]] = {}

    def hit(self, key: str, limit: int, now: float) -> int:
        """Counts one hit and returns 0, or the seconds to wait when there is no room for it."""
        with self._lock:
            if key not in self._hits and len(self._hits) >= LOCAL_WINDOWS:
                self._hits.clear()
            hits = self._hits.setdefault(key, deque())
            while hits and hits[0] <= now - WINDOW_SECONDS:
                hits.popleft()
            if len(hits) >= limit:
                return max(1, round(hits[0] + WINDOW_SECONDS - now))
            hits.append(now)
            return 0

    def forget(self, key: str) -> None:
        with self._lock:
            self._hits.pop(key, None)


_local = LocalWindows()


def wait_seconds(stores: Stores, name: str, address: str) -> int:
    """Counts an attempt before its password is looked at, so that attempts in parallel pass no limit. 0: go on.

    Otherwise the seconds until another attempt is let through. `succeeded` takes the attempts back.
    """
    limits = ((ANY_NAME, FAILURES_PER_ADDRESS), (name, FAILURES_PER_NAME))
    return max(_count(stores, _key(stores, each, address), limit) for each, limit in limits)


def succeeded(stores: Stores, name: str, address: str) -> None:
    """Forgets the failures of this name from this address: its owner is here."""
    key = _key(stores, name, address)
    _local.forget(key)
    stores.bypass.call("sign_in_forget", lambda: stores.stream.client.delete(key), None)


def _count(stores: Stores, key: str, limit: int) -> int:
    window = hit(stores, key, limit, WINDOW_SECONDS)
    if window is None:
        return _local.hit(key, limit, time.monotonic())
    return 0 if window.is_admitted else window.retry_after_seconds


def _key(stores: Stores, name: str, address: str) -> str:
    # A name is whatever a stranger typed, of any length and in any case.
    digest = ANY_NAME if name == ANY_NAME else hashlib.sha256(name.strip().lower().encode(errors="replace")).hexdigest()
    return stores.stream.keys.sign_in(digest, throttled_as(address))
