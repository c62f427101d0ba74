"""Firing the occurrence that waits for its entry's last job to end (overlap policy `buffer_one`)."""

from __future__ import annotations

from sqlalchemy import Connection, text

from app import cron_occurrences
from app.ids import uuid7
from app.jobs.fire import Firing
from app.jobs.fire_jobs import NewJob, insert_jobs

# Reads the few that wait, by their partial index. The entry is locked first, as in firing it, so that both see one last job.
READY = """
    SELECT o.cron_entry_id, o.nominal_at
    FROM cron_occurrences o JOIN cron_entries e ON e.id = o.cron_entry_id
    WHERE o.status = 'buffered' {which}
      AND NOT EXISTS (SELECT FROM jobs j WHERE j.id = e.last_job_id AND j.status IN ('pending', 'scheduled', 'running'))
    ORDER BY e.id LIMIT :most
"""
FIND = text(READY.format(which=""))
FIND_AGAIN = text(READY.format(which="AND e.id = ANY(CAST(:ids AS bigint[]))"))
LOCK = text("""
    SELECT id FROM cron_entries WHERE id = ANY(CAST(:ids AS bigint[])) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
""")
SET_LAST = text("""
    UPDATE cron_entries e SET last_run_at = u.nominal_at, last_job_id = u.job
    FROM unnest(CAST(:entries AS bigint[]), CAST(:nominal AS timestamptz[]), CAST(:jobs AS uuid[])) AS u(id, nominal_at, job)
    WHERE e.id = u.id
""")


def waiting_entries(conn: Connection, most: int) -> list[int]:
    """Entries with a buffered occurrence whose last job has finished, or is gone."""
    return [row.cron_entry_id for row in conn.execute(FIND, {"most": most})]


def fire_buffered(conn: Connection, entry_ids: list[int]) -> Firing:
    """Fires what waits, in one transaction of the caller's.

    1. Lock the entries, and ask again: somebody may have been first. 2. Mark the occurrences fired, from `buffered` only.
    3. Insert their jobs, due now. A crash before the commit leaves nothing; after it, the rescuer finds the jobs.
    """
    locked = list(conn.execute(LOCK, {"ids": entry_ids}).scalars())
    ready = conn.execute(FIND_AGAIN, {"ids": locked, "most": len(locked)}).all() if locked else []
    fired = cron_occurrences.fire_stored(
        conn, [(row.cron_entry_id, row.nominal_at, uuid7()) for row in ready], ["buffered"]
    )
    if not fired:
        return Firing([])
    jobs = insert_jobs(conn, [NewJob(o.job_id, o.entry_id, None, o.due_at) for o in fired])
    conn.execute(
        SET_LAST,
        {
            "entries": [o.entry_id for o in fired],
            "nominal": [o.nominal_at for o in fired],
            "jobs": [o.job_id for o in fired],
        },
    )
    return Firing(jobs, jobs[0].run_at)
