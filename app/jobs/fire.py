"""Firing due cron entries: occurrence, job and next time in one transaction (C20)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from sqlalchemy import Connection, RowMapping, text

from app import cron_occurrences
from app.cron_occurrences import Fired, Row
from app.ids import uuid7
from app.jobs.changes import cancel_for_next
from app.jobs.fire_jobs import NewJob, insert_jobs
from app.occurrences import Entry, Occurrence, Plan, plan
from app.stream import Due

logger = structlog.get_logger(__name__)

# In the order of the index on due_at: nothing else is read while nothing is due.
DUE = text("""
    SELECT id, due_at FROM cron_entries
    WHERE enabled AND due_at <= (SELECT punctual_now()) AND (due_at, id) > (:after_at, :after_id)
    ORDER BY due_at, id LIMIT :most
""")
LOCK = text("""
    WITH clock AS MATERIALIZED (SELECT punctual_now() AS now)
    SELECT e.id, e.expression, e.timezone, e.next_run_at, e.overlap, e.catch_up, e.catch_up_window_seconds, e.offset_ms, e.ends_at,
           e.last_job_id, clock.now
    FROM cron_entries e CROSS JOIN clock
    WHERE e.id = ANY(CAST(:ids AS bigint[])) AND e.enabled AND e.due_at <= (SELECT punctual_now())
    ORDER BY e.id FOR NO KEY UPDATE OF e SKIP LOCKED
""")
# A statement of its own, after the lock: the locking one may have read the job of before the entry last fired.
BUSY = text("""
    SELECT e.id FROM cron_entries e JOIN jobs j ON j.id = e.last_job_id
    WHERE e.id = ANY(CAST(:ids AS bigint[])) AND j.status IN ('pending', 'scheduled', 'running')
    UNION SELECT cron_entry_id FROM cron_occurrences WHERE cron_entry_id = ANY(CAST(:ids AS bigint[])) AND status = 'buffered'
""")
ADVANCE = text("""
    UPDATE cron_entries e SET next_run_at = u.next_run_at, last_run_at = coalesce(u.last_run_at, e.last_run_at),
                              last_job_id = coalesce(u.job, e.last_job_id)
    FROM unnest(CAST(:entries AS bigint[]), CAST(:next AS timestamptz[]), CAST(:last AS timestamptz[]), CAST(:jobs AS uuid[]))
      AS u(id, next_run_at, last_run_at, job)
    WHERE e.id = u.id
""")
DISABLE = text("""
    UPDATE cron_entries SET enabled = false, next_run_at = NULL, disabled_reason = :reason, updated_at = punctual_now() WHERE id = :id
""")

Position = tuple[datetime, int]


@dataclass(frozen=True, slots=True)
class Firing:
    """What one batch came to: jobs to enqueue after the commit, PostgreSQL's time, and whether an entry has more due times."""

    jobs: list[Due]
    now: datetime | None = None
    has_more: bool = False


def due_entries(conn: Connection, after: Position | None, most: int) -> list[Position]:
    """When and which entries are due, longest due first; `after` begins behind one of them."""
    after_at, after_id = after or ("-infinity", 0)
    rows = conn.execute(DUE, {"after_at": after_at, "after_id": after_id, "most": most})
    return [(row.due_at, row.id) for row in rows]


def fire_due(conn: Connection, entry_ids: Sequence[int]) -> Firing:
    """Fires those of the entries that are due, in one transaction of the caller's.

    1. Lock the entries. Another scheduler that does the same skips them; one that was stopped since it read the ids finds
       them advanced.
    2. Write the occurrences; one that is there already makes no second job, whoever wrote it.
    3. Insert the jobs of new occurrences.
    4. Advance each entry, in either case, and commit. A crash before it leaves nothing; after it, the jobs are due rows that
       the rescuer finds if they are not enqueued.
    An entry that cannot be computed is disabled with the error in words; the others go on.
    """
    entries = conn.execute(LOCK, {"ids": list(entry_ids)}).mappings().all()
    if not entries:
        return Firing([])
    busy = _busy(conn, entries)
    plans = [(entry, made) for entry in entries if (made := _plan(conn, entry, entry["id"] in busy)) is not None]
    fired = _write_occurrences(conn, plans)
    _cancel_previous(conn, plans, {occurrence.entry_id for occurrence in fired})
    jobs = insert_jobs(conn, [NewJob(o.job_id, o.entry_id, o.due_at, o.due_at) for o in fired])
    _advance(conn, plans, fired)
    return Firing(jobs, entries[0]["now"], any(made.has_more for _, made in plans))


def _busy(conn: Connection, entries: Sequence[RowMapping]) -> set[int]:
    """The entries whose last job has not finished, or that have an occurrence waiting for it."""
    asking = [entry["id"] for entry in entries if entry["overlap"] != "allow"]
    return set(conn.execute(BUSY, {"ids": asking}).scalars()) if asking else set()


def _plan(conn: Connection, entry: RowMapping, is_running: bool) -> Plan | None:
    try:
        return plan(
            Entry(
                entry["expression"],
                entry["timezone"],
                entry["next_run_at"],
                entry["overlap"],
                entry["catch_up"],
                entry["catch_up_window_seconds"],
                is_running,
                timedelta(milliseconds=entry["offset_ms"]),
                entry["ends_at"],
            ),
            entry["now"],
        )
    # CronError is one of them; nothing else is touched here than dates and numbers.
    except (ValueError, ArithmeticError) as error:
        logger.error("cron_entry_disabled", cron_entry=entry["id"], error=str(error))
        occurrence = Occurrence(entry["next_run_at"], "skipped", "error", detail=str(error))
        cron_occurrences.write(conn, [_row(entry, occurrence)])
        conn.execute(DISABLE, {"id": entry["id"], "reason": str(error)})
        return None


def _write_occurrences(conn: Connection, plans: Sequence[tuple[RowMapping, Plan]]) -> list[Fired]:
    """Stores all occurrences; returns those that are new and fire."""
    last = [(entry["id"], made.occurrences[-1]) for entry, made in plans if made.occurrences]
    # Before the newer ones are written: an entry has one that waits, at most.
    cron_occurrences.replace_buffered(conn, [(id_, o.nominal_at) for id_, o in last if o.status == "buffered"])
    return cron_occurrences.write(conn, [_row(entry, o) for entry, made in plans for o in made.occurrences])


def _row(entry: RowMapping, occurrence: Occurrence) -> Row:
    job_id: UUID | None = uuid7() if occurrence.status == "fired" else None
    return Row(entry["id"], occurrence.nominal_at + timedelta(milliseconds=entry["offset_ms"]), occurrence, job_id)


def _cancel_previous(conn: Connection, plans: Sequence[tuple[RowMapping, Plan]], fired: set[int]) -> None:
    """Only where a new job takes its place: an occurrence that was on record may be the very one that runs."""
    in_the_way = [entry["last_job_id"] for entry, made in plans if made.cancels_previous and entry["id"] in fired]
    if in_the_way:
        # An entry is also busy by what waits for its job, which may be gone.
        cancel_for_next(conn, *filter(None, in_the_way))


def _advance(conn: Connection, plans: Sequence[tuple[RowMapping, Plan]], fired: Sequence[Fired]) -> None:
    if not plans:
        return
    last = {occurrence.entry_id: (occurrence.nominal_at, occurrence.job_id) for occurrence in fired}
    nothing: tuple[None, None] = (None, None)
    conn.execute(
        ADVANCE,
        {
            "entries": [entry["id"] for entry, _ in plans],
            "next": [made.next_run_at for _, made in plans],
            "last": [last.get(entry["id"], nothing)[0] for entry, _ in plans],
            "jobs": [last.get(entry["id"], nothing)[1] for entry, _ in plans],
        },
    )
