"""Counting ended attempts by client and host, and opening and closing circuits by what they come to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Connection, Row, text

from app import audit
from app.circuits.rules import Span, State, after_attempts, after_probe
from app.instants import format_instant

MAKE = text("""
    INSERT INTO circuits (client_id, host)
    SELECT * FROM unnest(CAST(:clients AS bigint[]), CAST(:hosts AS text[])) ON CONFLICT DO NOTHING
""")
# In the order of the key, so that two recorders never wait for each other.
LOCK = text("""
    SELECT c.*, punctual_now() AS now FROM circuits c
    WHERE (client_id, host) IN (SELECT * FROM unnest(CAST(:clients AS bigint[]), CAST(:hosts AS text[])))
    ORDER BY client_id, host FOR NO KEY UPDATE
""")
STORE = text("""
    UPDATE circuits SET opened_at = :opened_at, retry_at = :retry_at, trips = :trips, openings = :openings,
      probe_job_id = :probe_job_id, probe_at = :probe_at, spans = CAST(:spans AS timestamptz[]),
      successes = CAST(:successes AS int[]), failures = CAST(:failures AS int[]),
      changed_at = CASE WHEN opened_at IS DISTINCT FROM CAST(:opened_at AS timestamptz) THEN punctual_now() ELSE changed_at END
    WHERE client_id = :client_id AND host = :host
""")


@dataclass(frozen=True, slots=True)
class Outcome:
    """An attempt that ended and says something about its host."""

    client_id: int
    host: str
    job_id: UUID
    is_failure: bool


@dataclass(frozen=True, slots=True)
class Change:
    """A circuit that opened, opened anew after a try, or closed."""

    client_id: int
    host: str
    change: Literal["opened", "reopened", "closed"]
    retry_at: datetime | None


def record(conn: Connection, outcomes: Iterable[Outcome]) -> list[Change]:
    """Counts the outcomes, in one transaction of the caller's. Returns what opened or closed.

    A crash before the commit loses these counts, and nothing else: the attempts are on record. The try of an open circuit whose
    outcome is lost so is followed by another one a while later.
    """
    by_circuit: dict[tuple[int, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_circuit[outcome.client_id, outcome.host].append(outcome)
    if not by_circuit:
        return []
    keys = {"clients": [client_id for client_id, _ in by_circuit], "hosts": [host for _, host in by_circuit]}
    conn.execute(MAKE, keys)
    changes = []
    for row in conn.execute(LOCK, keys).all():
        before = _state(row)
        ended = by_circuit[row.client_id, row.host]
        probe = next((outcome for outcome in ended if outcome.job_id == row.probe_job_id), None)
        after = before
        if before.is_open and probe is not None:
            after = after_probe(before, probe.is_failure, row.now)
        elif not before.is_open:
            failures = sum(outcome.is_failure for outcome in ended)
            after = after_attempts(before, len(ended) - failures, failures, row.now)
        if after != before:
            _store(conn, row, after)
            for change in _told(row, before, after):
                _note(conn, change)
                changes.append(change)
    return changes


def _told(row: Row[Any], before: State, after: State) -> list[Change]:
    if after.is_open:
        return [Change(row.client_id, row.host, "reopened" if before.is_open else "opened", after.retry_at)]
    return [Change(row.client_id, row.host, "closed", None)] if before.is_open else []


def _note(conn: Connection, change: Change) -> None:
    detail = {} if change.retry_at is None else {"retry_at": format_instant(change.retry_at)}
    audit.record(
        conn, "system", "circuit breaker", change.client_id, f"circuit.{change.change}", "circuit", change.host, detail
    )


def _state(row: Row[Any]) -> State:
    spans = [Span(*each) for each in zip(row.spans, row.successes, row.failures, strict=True)]
    return State(spans, row.opened_at, row.retry_at, row.trips, row.openings)


def _store(conn: Connection, row: Row[Any], state: State) -> None:
    conn.execute(
        STORE,
        {
            "client_id": row.client_id,
            "host": row.host,
            "opened_at": state.opened_at,
            "retry_at": state.retry_at,
            "trips": state.trips,
            "openings": state.openings,
            "probe_job_id": None,
            "probe_at": None,
            "spans": [span.at for span in state.spans],
            "successes": [span.successes for span in state.spans],
            "failures": [span.failures for span in state.spans],
        },
    )
