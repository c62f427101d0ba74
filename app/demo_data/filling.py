"""`make demo`: fills the database once, in one transaction, the same for the same moment."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from uuid import UUID

from sqlalchemy import Connection, Engine, text

from app import cron_occurrences
from app.callback import values_of
from app.clients import find_client, get_or_create_client
from app.config import Settings
from app.cron import CronError, parse
from app.cron_entries import Definition, Template
from app.cron_entries.changes import change_entry, insert_entry
from app.cron_entries.reading import lock
from app.cron_entries.schedule import db_time
from app.database import transaction
from app.demo_data import jobs
from app.demo_data.answers import compact
from app.demo_data.cron_history import Past, Planned, past_of
from app.demo_data.history import Made
from app.demo_data.schedules import SKETCHES, Sketch
from app.demo_data.work import CLIENTS
from app.demo_data.writing import update_entry, write_jobs
from app.jobs.bulk import By
from app.occurrences import Occurrence
from app.retry import RetryPolicy
from app.retry_policy import text_of

SEED = 20261201
JOBS = 5_000
BY = By("command", "make demo")
# The client of `flask up` itself is the only other one that a database to be filled may have.
FIRST_CLIENT = "demo"
OTHERS = text("SELECT name FROM clients WHERE name <> :first ORDER BY name LIMIT 3")


def refusal(settings: Settings) -> str | None:
    """Why demo data may not be put into the database of these settings, or None."""
    if settings.is_production:
        return "Demo data is for a local start only: PUNCTUAL_ENV says production."
    if settings.database_url is not None:
        return "Demo data is only put into the database that `make demo` brings itself: unset DATABASE_URL."
    return None


def fill(engine: Engine, receiver_port: int) -> str:
    """Fills a database that nobody uses yet, and says what it did. One that is filled already stays as it is."""
    with transaction(engine) as conn:
        if find_client(conn, CLIENTS[0]) is not None:
            return "The demo data is there already: nothing was added."
        others = conn.execute(OTHERS, {"first": FIRST_CLIENT}).scalars().all()
        if others:
            return (
                f"No demo data was added: this database is in use by {', '.join(others)}. "
                "Set DATA_DIR to another folder to begin with an empty one."
            )
        return _fill(conn, f"http://127.0.0.1:{receiver_port}")


def _fill(conn: Connection, receiver: str) -> str:
    rand = Random(SEED)
    workers = tuple(UUID(bytes=rand.randbytes(16), version=4) for _ in range(3))
    clients = {name: get_or_create_client(conn, name) for name in CLIENTS}
    entries = [_insert_entry(conn, clients[sketch.client], sketch, receiver) for sketch in SKETCHES]
    now = db_time(conn)
    made: list[Made] = []
    for entry in entries:
        past = past_of(rand, entry, now, workers)
        made += past.jobs
        _finish_entry(conn, entry, past, now)
    made += jobs.still_to_come(rand, clients, now, workers, receiver)
    made += jobs.called_off(rand, clients, now)
    made += jobs.ended(rand, clients, now, workers, JOBS - len(made))
    made.sort(key=lambda job: job.job["id"])
    write_jobs(conn, made)
    attempts = sum(len(job.attempts) for job in made)
    return (
        f"Demo data: {len(made):,} jobs of {len(CLIENTS)} clients, {attempts:,} attempts, {len(entries)} cron entries."
    )


def _insert_entry(conn: Connection, client_id: int, sketch: Sketch, receiver: str) -> Planned:
    payload = compact({"task": sketch.name, "source": "cron"})
    url = f"{receiver}{sketch.path}"
    retry = None
    if sketch.retry_seconds is not None:
        retry = text_of(RetryPolicy(backoff="fixed", base_seconds=sketch.retry_seconds, jitter="none"))
    callback = jobs.callback_to(url, payload, sketch.max_attempts, retry, sketch.timeout_seconds)
    definition = Definition(
        expression=sketch.expression,
        timezone=sketch.timezone,
        template=Template(**values_of(callback), job_type=sketch.type),
        name=sketch.name,
        description=sketch.description,
        overlap=sketch.overlap,
        catch_up=sketch.catch_up,
        jitter_seconds=sketch.jitter_seconds,
    )
    entry_id = insert_entry(conn, client_id, definition, BY)
    assert entry_id is not None, sketch.name
    entry = lock(conn, client_id, entry_id)
    if sketch.paused_hours is not None:
        change_entry(conn, entry, {"enabled": False}, BY, sketch.pause_reason)
    return Planned(entry_id, client_id, sketch, callback, entry.offset)


def _finish_entry(conn: Connection, entry: Planned, past: Past, now: datetime) -> None:
    """Stores the past of an entry. The one whose zone is lost gets the error that the cron loop would give it."""
    sketch = entry.sketch
    created_at = now - timedelta(hours=sketch.age_hours)
    disabled_reason, updated_at, paused_at = None, created_at, None
    if sketch.paused_hours is not None:
        updated_at = paused_at = now - timedelta(hours=sketch.paused_hours)
    if sketch.lost_zone is not None:
        disabled_reason = _error_of(sketch.expression, sketch.lost_zone)
        updated_at = now - timedelta(hours=sketch.lost_hours)
        if past.next_run_at is not None:
            occurrence = Occurrence(past.next_run_at, "skipped", "error", detail=disabled_reason)
            past.rows.append(cron_occurrences.Row(entry.id, past.next_run_at + entry.offset, occurrence))
    cron_occurrences.write(conn, past.rows)
    update_entry(
        conn,
        entry,
        past,
        created_at=created_at,
        updated_at=updated_at,
        paused_at=paused_at,
        disabled_reason=disabled_reason,
    )


def _error_of(expression: str, zone: str) -> str:
    try:
        parse(expression, zone)
    except CronError as error:
        return str(error)
    raise ValueError(f"{zone} is a zone after all")
