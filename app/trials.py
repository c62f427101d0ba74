"""Trials of callbacks, for whoever asks: signed with the client's secrets, and not too many at a time."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sqlalchemy import Engine

from app.attempts import Answer
from app.callbacks import trial
from app.callbacks.trial import TrialRequest
from app.clients import signing_now
from app.config import Settings
from app.database import autocommit
from app.errors import RateLimited
from app.instants import format_instant
from app.native_threads import NativeThreads

MAX_TRIAL_SECONDS = 30.0
# Of one process. Those whose host name still hangs count, although they have ended for who asked.
MOST_AT_ONCE = 32
MOST_OF_A_CLIENT = 4
BUSY = "Too many test callbacks are under way: try again when one of them has ended."

# A trial holds one thread at a time, and one more while its host name hangs beyond its deadline.
_threads = NativeThreads(2 * MOST_AT_ONCE)
_under_way: Counter[int | None] = Counter()


def make_trial(engine: Engine, settings: Settings, client_id: int | None, request: TrialRequest) -> Answer:
    """Sends one request now and returns what it came to. Without a client it is not signed.

    Raises RateLimited while too many are under way, of this client or of all.
    """
    if _under_way[client_id] >= MOST_OF_A_CLIENT or _threads.under_way >= MOST_AT_ONCE:
        raise RateLimited(BUSY, headers={"Retry-After": "1"})
    _under_way[client_id] += 1
    try:
        with autocommit(engine) as conn:
            now, secrets = signing_now(conn, client_id)
        return trial.send(settings, request.claim(client_id or 0, secrets, now), _threads)
    finally:
        _under_way[client_id] -= 1
        if not _under_way[client_id]:
            del _under_way[client_id]


def shown(answer: Answer) -> dict[str, Any]:
    """An answer as programs get it."""
    return {
        "status": answer.execution_status,
        "status_code": answer.status_code,
        "error_class": answer.error_class,
        "error": answer.error,
        "timings": answer.timings,
        "response_headers": [list(pair) for pair in answer.response_headers],
        "response_body": answer.response_body,
        "response_truncated": answer.response_truncated,
        "started_at": format_instant(answer.started_at),
        "finished_at": format_instant(answer.finished_at),
    }
