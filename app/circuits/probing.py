"""The one job that may try an open circuit."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection, text

# A try that nobody told the end of: its worker died. As long as the longest call may take.
TRY_SECONDS = 960
BEGIN = text(f"""
    UPDATE circuits c SET probe_job_id = j.id, probe_at = punctual_now()
    FROM jobs j
    WHERE j.id = :job_id AND c.client_id = j.client_id AND c.host = j.callback_host AND c.opened_at IS NOT NULL
      AND c.retry_at <= punctual_now()
      AND (c.probe_at IS NULL OR c.probe_at < punctual_now() - make_interval(secs => {TRY_SECONDS})
           OR NOT EXISTS (SELECT FROM jobs p WHERE p.id = c.probe_job_id AND p.status IN ('pending', 'scheduled', 'running')))
    RETURNING c.host
""")


def begin_probe(conn: Connection, job_id: UUID) -> bool:
    """Whether this job may try the circuit of its host now: it is time, and no other one tries."""
    return conn.execute(BEGIN, {"job_id": job_id}).one_or_none() is not None
