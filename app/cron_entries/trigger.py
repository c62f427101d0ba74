"""Running an entry now, beside its schedule."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import text

from app.cron_entries.changes import note
from app.cron_entries.reading import lock
from app.database import transaction
from app.ids import uuid7
from app.jobs import enqueue
from app.jobs.bulk import By
from app.jobs.fire_jobs import NewJob, insert_jobs
from app.stores import Stores

SET_LAST = text("UPDATE cron_entries SET last_run_at = :run_at, last_job_id = :job WHERE id = :id")


def trigger(stores: Stores, client_id: int | None, entry_id: int, by: By) -> UUID:
    """Makes a job of the entry that is due now, and returns its id. Raises NotFound.

    The schedule stays as it is; the job counts as the entry's last, which the overlap policy looks at. A paused entry is run
    as well: somebody asked for it.
    """
    job_id = uuid7()
    with transaction(stores.engine) as conn:
        entry = lock(conn, client_id, entry_id)
        (due,) = insert_jobs(conn, [NewJob(job_id, entry.id)])
        conn.execute(SET_LAST, {"run_at": due.run_at, "job": job_id, "id": entry.id})
        note(conn, "trigger", entry, by, {"job": str(job_id)})
    # A crash here: the job is a due row, which the rescuer finds (C16).
    enqueue(stores, [due], due.run_at)
    return job_id
