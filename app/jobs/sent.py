"""What an attempt sent: the job as it is, or as it was before it was edited."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Engine, text

from app.callback import content_type_of, headers_of
from app.database import autocommit
from app.jobs.edit import SENT
from app.jobs.queries import ExecutionRow
from app.request_text import Fields, headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The request of one attempt; `payload` is its body, and None when there was none."""

    job_id: UUID
    type: str
    attempt: int
    payload: str | None
    callback_url: str
    method: str
    headers: str
    content_type: str | None
    max_attempts: int

    @property
    def header_fields(self) -> Fields:
        """All of its headers, but for those that were made at sending."""
        content_type = content_type_of(self.payload, self.content_type)
        own = headers_of(self.headers)
        return headers(self.job_id, self.type, self.attempt, self.max_attempts, own, content_type)


_EXECUTION = ", ".join(f"e.{name}" for name in ExecutionRow.__slots__)
# An edit keeps what the attempts up to `through_generation` sent; those after the last edit sent what the job is now.
ATTEMPT = text(f"""
    SELECT {_EXECUTION}, j.id AS job_id, j.type, sent.* FROM executions e JOIN jobs j ON j.id = e.job_id
    CROSS JOIN LATERAL (
      SELECT {SENT} FROM (
        SELECT through_generation, {SENT} FROM job_revisions r WHERE r.job_id = j.id AND r.through_generation >= e.queue_generation
        UNION ALL
        SELECT NULL, j.{SENT.replace(", ", ", j.")}
      ) versions ORDER BY through_generation NULLS LAST LIMIT 1
    ) sent
    WHERE e.job_id = :job_id AND e.number = :number AND (CAST(:client_id AS bigint) IS NULL OR j.client_id = :client_id)
    ORDER BY e.queue_generation DESC LIMIT 1
""")


def attempt(engine: Engine, client_id: int | None, job_id: UUID, number: int) -> tuple[ExecutionRow, Sent] | None:
    """An attempt by its number and what it sent; None when there is none, or the job is another client's."""
    with autocommit(engine) as conn:
        values = {"client_id": client_id, "job_id": job_id, "number": number}
        row = conn.execute(ATTEMPT, values).mappings().one_or_none()
    if row is None:
        return None
    execution = ExecutionRow(**{name: row[name] for name in ExecutionRow.__slots__})
    return execution, Sent(**{name: row[name] for name in Sent.__slots__})
