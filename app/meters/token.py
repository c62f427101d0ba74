"""METRICS_TOKEN: who may read /metrics, of web, worker and scheduler alike."""

from __future__ import annotations

import hmac

WANTS_TOKEN = "Give METRICS_TOKEN as `Authorization: Bearer <token>`."


def carries_token(authorization: str, token: str | None) -> bool:
    """Whether the header holds the token; always, when none is set."""
    if token is None:
        return True
    scheme, _, given = authorization.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())
