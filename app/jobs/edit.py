"""Changing a job that has not started, or is dead, and keeping on record what its earlier attempts sent."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Any, TypedDict
from uuid import UUID

from sqlalchemy import Row, TextClause, text

from app.callback import BODYLESS, COLUMNS, DEFAULT_ATTEMPTS, DEFAULT_TIMEOUT_SECONDS
from app.clock import boottime
from app.database import transaction
from app.errors import invalid
from app.jobs.lanes import lane
from app.jobs.requests import Changed
from app.jobs.submit import enqueue, since
from app.models import UNCLAIMED
from app.stores import Stores
from app.stream import Due, Ticket


class JobEdit(TypedDict, total=False):
    """What to change, in columns of app.callback.Callback; what is left out stays as it is."""

    run_at: datetime
    payload: str | None
    content_type: str | None
    callback_url: str
    callback_host: str
    method: str
    headers: str
    timeout_seconds: float | None
    success_statuses: str | None
    max_attempts: int | None
    retry: str | None
    on_success_url: str | None
    on_success_host: str | None
    on_failure_url: str | None
    on_failure_host: str | None
    priority: int
    tags: list[str]


RULE = "only a job that has not started, or a dead one, can be changed"
# What tells one attempt's request from another's.
SENT = "payload, callback_url, method, headers, content_type, max_attempts"

HELD = text("""
    SELECT status, attempts, method, payload IS NULL AS has_no_body FROM jobs
    WHERE id = :id AND (CAST(:client_id AS bigint) IS NULL OR client_id = :client_id) FOR NO KEY UPDATE
""")
# The attempts there were belong to this generation, or to the ones before it when it has none yet.
EDIT = f"""
    WITH clock AS MATERIALIZED (SELECT punctual_now() AS now),
    kept AS (
      INSERT INTO job_revisions (job_id, through_generation, {SENT}, created_at)
      SELECT id, queue_generation - CASE WHEN attempts = 0 THEN 1 ELSE 0 END, {SENT}, now FROM jobs, clock
      WHERE id = :id AND attempts_before + attempts > 0
      ON CONFLICT DO NOTHING
    )
    UPDATE jobs SET {{columns}} updated_at = now FROM clock
    WHERE id = :id AND (status IN ('pending', 'scheduled') AND attempts = 0 OR status = 'dead')
    RETURNING status, run_at, queue_generation, now, {lane("jobs")} AS lane
"""
# What is taken away is the queue's again, as for a job that never said.
_LEFT_TO_QUEUE = {
    name: f"coalesce(CAST(:{name} AS {kind}), (SELECT default_{name} FROM queues q WHERE q.id = jobs.queue_id), {default})"
    for name, kind, default in (
        ("max_attempts", "int", DEFAULT_ATTEMPTS),
        ("timeout_seconds", "float8", DEFAULT_TIMEOUT_SECONDS),
    )
}
MOVE = """
    status = CASE WHEN :run_at <= now THEN 'pending' ELSE 'scheduled' END, run_at = :run_at, scheduled_for = :run_at,
    first_due_at = greatest(:run_at, now),
"""


def edit(stores: Stores, client_id: int | None, job_id: UUID, wanted: JobEdit) -> Changed:
    """Changes a job in status `pending` or `scheduled` without attempts, or `dead`; `client_id` None is every client's.

    A dead job's time cannot be moved, since it has none, and its max_attempts not be put below the attempts it had. Raises
    InvalidRequest when the job would be left without the body that its method needs.

    1. One transaction: the row is locked and looked at, then changed by one statement, which also keeps what earlier attempts
       sent (job_revisions). A claim passes by a locked row. A crash before its end: nothing happened.
    2. A time that was moved is told to Redis. A crash before that: the loader (C13) or the rescuer (C16) brings the job in. An
       entry with an earlier time that is still there does no harm: the claim asks run_at (C2), and puts the entry back.
    """
    asked_at, identity = boottime(), {"id": job_id, "client_id": client_id}
    with transaction(stores.engine) as conn:
        held = conn.execute(HELD, identity).one_or_none()
        if held is None:
            return Changed("missing")
        refused = _refusal(held, wanted)
        if refused is not None:
            return refused
        row = conn.execute(_statement(tuple(sorted(wanted))), {**identity, **wanted}).one()
    if "run_at" in wanted:
        due = Due(Ticket(str(job_id), row.queue_generation, 0), row.run_at, row.lane)
        enqueue(stores, [due], since(asked_at, row.now))
    return Changed("changed", row.status)


def _refusal(held: Row[Any], wanted: JobEdit) -> Changed | None:
    is_waiting = held.status in UNCLAIMED and held.attempts == 0
    if not is_waiting and held.status != "dead":
        has_started = " and has been tried" if held.status in UNCLAIMED else ""
        return Changed("refused", held.status, f"The job is {held.status}{has_started}: {RULE}.")
    if not is_waiting and "run_at" in wanted:
        return Changed("refused", held.status, "The job is dead, and has no next time to move: retry it instead.")
    if (wanted.get("max_attempts") or held.attempts) < held.attempts:
        return Changed(
            "refused",
            held.status,
            f"The job is {held.status} and has had {held.attempts} attempts: max_attempts cannot be less.",
        )
    has_no_body = wanted["payload"] is None if "payload" in wanted else held.has_no_body
    if has_no_body and wanted.get("method", held.method) not in BODYLESS:
        raise invalid("payload", f"is required, or a body: only {' and '.join(BODYLESS)} do without.")
    return None


@lru_cache(maxsize=256)
def _statement(names: tuple[str, ...]) -> TextClause:
    """The UPDATE of these columns, each of which is one of app.callback's, or run_at."""
    sets = [f"{name} = {_LEFT_TO_QUEUE.get(name, f':{name}')}," for name in names if name in COLUMNS]
    if "payload" in names:
        sets.append("payload_bytes = coalesce(octet_length(convert_to(:payload, 'UTF8')), 0),")
    if "run_at" in names:
        sets.append(MOVE.replace(":run_at", "CAST(:run_at AS timestamptz)"))
    return text(EDIT.format(columns=" ".join(sets)))
