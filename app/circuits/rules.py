"""When a circuit opens, and when it closes again. Pure.

It opens at FAILURE_SHARE failures over at least LEAST_ATTEMPTS attempts within WINDOW. After FIRST_PAUSE, which doubles with each
failed try up to LONGEST_PAUSE, one job tries: its success closes the circuit, its failure opens it anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

FAILURE_SHARE = 0.7
LEAST_ATTEMPTS = 10
WINDOW = timedelta(minutes=5)
# Attempts are counted by spans of this length.
SPAN = timedelta(seconds=15)
FIRST_PAUSE = timedelta(seconds=30)
LONGEST_PAUSE = timedelta(minutes=15)
# What the receiver says of one request says nothing about the host.
_OF_ONE_REQUEST = {"http_4xx", "redirect", "blocked", "lost"}
_BUSY = (408, 429)


@dataclass(frozen=True, slots=True)
class Span:
    """Attempts that ended from `at` on, for SPAN."""

    at: datetime
    successes: int
    failures: int


@dataclass(frozen=True, slots=True)
class State:
    """A circuit. `trips` counts openings in a row, `openings` all."""

    spans: Sequence[Span] = ()
    opened_at: datetime | None = None
    retry_at: datetime | None = None
    trips: int = 0
    openings: int = 0

    @property
    def is_open(self) -> bool:
        return self.opened_at is not None


def counts_as_failure(error_class: str | None, status_code: int | None) -> bool | None:
    """True for a failure of the host, False for a success; None for what says nothing about it."""
    if error_class is None:
        return False
    if status_code in _BUSY:
        return True
    return None if error_class in _OF_ONE_REQUEST else True


def after_attempts(state: State, successes: int, failures: int, now: datetime) -> State:
    """A closed circuit after attempts that ended; an open one is left as it is, for they began before it opened."""
    if state.is_open:
        return state
    spans = _counted([span for span in state.spans if span.at > now - WINDOW], successes, failures, now)
    failed = sum(span.failures for span in spans)
    total = failed + sum(span.successes for span in spans)
    if total >= LEAST_ATTEMPTS and failed >= FAILURE_SHARE * total:
        return _opened(state, now)
    return replace(state, spans=spans)


def after_probe(state: State, is_failure: bool, now: datetime) -> State:
    """An open circuit after the one job that tried."""
    if not state.is_open:
        return state
    return _opened(state, now) if is_failure else State(openings=state.openings)


def _opened(state: State, now: datetime) -> State:
    pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(state.trips, 10))
    return State(
        opened_at=state.opened_at or now,
        retry_at=now + pause,
        trips=state.trips + 1,
        openings=state.openings + (0 if state.is_open else 1),
    )


def _counted(spans: list[Span], successes: int, failures: int, now: datetime) -> list[Span]:
    last = spans[-1] if spans else None
    if last is not None and now - last.at < SPAN:
        return [*spans[:-1], Span(last.at, last.successes + successes, last.failures + failures)]
    return [*spans, Span(now, successes, failures)]
