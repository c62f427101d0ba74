"""What arrived at the demo receiver, the latest of it, in bounded memory."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from dataclasses import dataclass
from datetime import datetime
from typing import Any

KEPT_ARRIVALS = 2_000
KEPT_BODY_BYTES = 16 << 10
KEPT_JOBS = 20_000


@dataclass
class Arrival:
    """One request. `answered` is the status it got, 0 until then; `seconds` how long the answer took."""

    arrived_at: datetime
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    answered: int = 0
    seconds: float = 0.0

    @property
    def job_id(self) -> str:
        """The job's id, or the path for a request that no Punctual sent."""
        return self.header("X-Job-ID") or self.path

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def header(self, name: str) -> str:
        """ "" when it is not there."""
        return next((value for known, value in self.headers.items() if known.lower() == name.lower()), "")

    def as_json(self) -> dict[str, Any]:
        return {
            "arrived_at": self.arrived_at.isoformat(),
            "method": self.method,
            "path": self.path,
            "headers": self.headers,
            "body": self.text,
            "answered": self.answered,
        }


class Record:
    """The latest arrivals, and how often each job called the flaky address."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._arrivals: deque[Arrival] = deque(maxlen=KEPT_ARRIVALS)
        self._calls: OrderedDict[str, int] = OrderedDict()
        self.total = 0

    def add(self, arrival: Arrival) -> None:
        arrival.body = arrival.body[:KEPT_BODY_BYTES]
        with self._lock:
            self._arrivals.append(arrival)
            self.total += 1

    def newest_first(self) -> list[Arrival]:
        with self._lock:
            return list(reversed(self._arrivals))

    def count_call(self, job_id: str) -> int:
        """Which call of this job it is, from 1. The oldest jobs are forgotten beyond 20,000."""
        with self._lock:
            self._calls[job_id] = self._calls.pop(job_id, 0) + 1
            if len(self._calls) > KEPT_JOBS:
                self._calls.popitem(last=False)
            return self._calls[job_id]

    def clear(self) -> None:
        with self._lock:
            self._arrivals.clear()
            self._calls.clear()
            self.total = 0
