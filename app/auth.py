"""Who calls the API: a bearer key stands for a client; failing keys of one address are slowed down."""

from __future__ import annotations

import threading
import time

from flask import g, request
from structlog.contextvars import bind_contextvars

from app.api_keys import Bearer, hashed, look_up
from app.client_address import client_address, throttled_as
from app.current import punctual, settings
from app.database import is_connection_lost
from app.errors import RateLimited, Unauthorized
from app.rate_limit import hit
from app.stores import Stores

# How long a revoked or expired key can still pass, and a changed quota stay unseen, in each web process.
KEY_CACHE_SECONDS = 1.0
KEY_CACHE_SIZE = 10_000
FAILED_KEYS_PER_MINUTE = 20
REFUSED = "Give a valid API key as `Authorization: Bearer pk_…`."


class KeyCache:
    """Good keys seen within the last second, by hash, so that a busy client costs one look-up a second.

    Bad keys are not kept: a flood of them could only push the good ones out.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[bytes, tuple[Bearer, float]] = {}

    def find(self, stores: Stores, key: str) -> Bearer | None:
        """Whom the key stands for, or None. Raises what the database raises."""
        digest, now = hashed(key), time.monotonic()
        known = self._known.get(digest)
        if known is not None and now < known[1]:
            return known[0]
        try:
            bearer = look_up(stores.engine, key)
        except Exception as error:
            # Connections of a pool do not outlive their server: the first of them to find out is no reason for a 503.
            if not is_connection_lost(error):
                raise
            bearer = look_up(stores.engine, key)
        with self._lock:
            self._known.pop(digest, None)
            if bearer is not None:
                if len(self._known) >= KEY_CACHE_SIZE:
                    self._known.clear()
                left = KEY_CACHE_SECONDS if bearer.expires_in_seconds is None else bearer.expires_in_seconds
                self._known[digest] = (bearer, now + min(KEY_CACHE_SECONDS, left))
        return bearer


_keys = KeyCache()


def authenticate() -> None:
    """Before each request of the API: sets g.client_id, g.client_rate_limit and g.api_key_prefix.

    Raises Unauthorized, the same for a key that is absent, malformed, unknown, revoked or expired, so that nothing can be
    learned from it; RateLimited instead once an address has tried twenty bad keys within a minute. A good key always passes.
    """
    key = _bearer_key(request.headers.get("Authorization"))
    bearer = None if key is None else _keys.find(punctual(), key)
    if bearer is None:
        if key is not None:
            _slow_down(request_address())
        raise Unauthorized(REFUSED)
    g.client_id = bearer.client_id
    g.client_name = bearer.client_name
    g.client_rate_limit = bearer.rate_limit
    g.api_key_prefix = bearer.prefix
    bind_contextvars(client=bearer.client_name)


def request_address() -> str:
    """The caller's address; X-Forwarded-For counts behind TRUSTED_PROXIES only."""
    forwarded_for = request.headers.getlist("X-Forwarded-For")
    return client_address(request.remote_addr, forwarded_for, settings().trusted_proxies)


def _bearer_key(header: str | None) -> str | None:
    """What follows the scheme `Bearer`, in any case; None when there is no such header."""
    scheme, _, key = (header or "").strip().partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


def _slow_down(address: str) -> None:
    """Counts a failed key. Raises RateLimited beyond twenty a minute; while Redis is away nobody is slowed down."""
    stores = punctual()
    window = hit(stores, stores.stream.keys.refusals(throttled_as(address)), FAILED_KEYS_PER_MINUTE)
    if window is not None and not window.is_admitted:
        raise RateLimited(
            f"Too many bad API keys came from your address: try again in {window.retry_after_seconds} s.",
            headers={"Retry-After": str(window.retry_after_seconds)},
        )
