"""Made-up answers to calls: how long each phase took, the headers and the body. Pure, and the same for the same `Random`."""

from __future__ import annotations

import json
import math
from datetime import datetime, timedelta
from email.utils import format_datetime
from random import Random

from app.attempts import Answer
from app.demo_data.failures import Failure, Headers

PHASES = ("dns", "connect", "tls", "first_byte", "total")


def succeeded(
    rand: Random, started_at: datetime, median_ms: float, spread: float, body: str, server: str, is_tls: bool
) -> Answer:
    """An answer of 200, or 202 or 204 without a body; its time is log-normal around the median."""
    took_ms = rand.lognormvariate(math.log(median_ms), spread)
    status_code = 204 if not body else 202 if '"queued"' in body else 200
    return Answer(
        started_at,
        started_at + timedelta(milliseconds=took_ms),
        status_code,
        timings=_timings(rand, took_ms, "total", is_tls),
        response_headers=_headers(rand, started_at, body, server),
        response_body=body,
    )


def failed(rand: Random, started_at: datetime, failure: Failure, server: str, is_tls: bool) -> Answer:
    took_ms = rand.uniform(*failure.took_ms)
    is_answered = failure.status_code is not None
    return Answer(
        started_at,
        started_at + timedelta(milliseconds=took_ms),
        failure.status_code,
        failure.error_class,
        failure.error,
        timings=_timings(rand, took_ms, failure.reached, is_tls) if failure.reached else {},
        response_headers=(*_headers(rand, started_at, failure.body, server), *failure.headers) if is_answered else (),
        response_body=failure.body,
    )


def _timings(rand: Random, took_ms: float, reached: str, is_tls: bool) -> dict[str, float]:
    """Milliseconds to the end of each phase, as a worker measures them. Most calls use a connection that is open already."""
    points = {"total": round(took_ms, 3)}
    is_fresh = rand.random() < 0.35 or reached not in ("total", "first_byte")
    at = 0.0
    for phase in PHASES[: PHASES.index(reached) + 1] if is_fresh else ():
        if phase in ("first_byte", "total") or (phase == "tls" and not is_tls):
            continue
        at = min(at + rand.lognormvariate(math.log({"dns": 1.5, "connect": 6, "tls": 14}[phase]), 0.5), took_ms * 0.8)
        points[phase] = round(at, 3)
    if reached in ("first_byte", "total"):
        points["first_byte"] = round(at + (took_ms - at) * rand.uniform(0.85, 0.995), 3)
    return points


def _headers(rand: Random, at: datetime, body: str, server: str) -> Headers:
    date = format_datetime(at.replace(microsecond=0), usegmt=True)
    if server.startswith("punctual-demo"):
        return (
            ("Server", server),
            ("Date", date),
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("Content-Security-Policy", "default-src 'none'; style-src 'self'"),
            ("X-Content-Type-Options", "nosniff"),
        )
    kind = "application/json" if body.startswith("{") else "text/html" if body.startswith("<") else "text/plain"
    pairs = [("Server", server), ("Date", date)]
    if body:
        pairs += [("Content-Type", f"{kind}; charset=utf-8"), ("Content-Length", str(len(body.encode())))]
    return (*pairs, ("X-Request-Id", f"{rand.getrandbits(64):016x}"))


def compact(value: object) -> str:
    """JSON as a program sends it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
