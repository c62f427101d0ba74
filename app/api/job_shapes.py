"""What jobs and their executions look like in answers."""

from __future__ import annotations

from typing import Any

from app.api.callback_shapes import callback
from app.callback import content_type_of
from app.instants import format_instant, format_optional
from app.jobs.planned import planned_attempts
from app.jobs.queries import ExecutionRow, JobDetail, JobRow
from app.jobs.sent import Sent
from app.request_text import curl, signed


def summary(job: JobRow) -> dict[str, Any]:
    """A job as lists show it."""
    return {
        "id": str(job.id),
        "type": job.type,
        "queue": job.queue,
        "priority": job.priority,
        "tags": job.tags,
        "method": job.method,
        "callback_url": job.callback_url,
        "status": job.status,
        "run_at": format_instant(job.run_at),
        "scheduled_for": format_instant(job.scheduled_for),
        "expires_at": format_optional(job.expires_at),
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
        "last_error": job.last_error,
        "last_status_code": job.last_status_code,
        "cron_job_id": job.cron_entry_id,
        "idempotency_key": job.idempotency_key,
        "queue_generation": job.queue_generation,
        "created_at": format_instant(job.created_at),
        "updated_at": format_instant(job.updated_at),
        "started_at": format_optional(job.started_at),
        "finished_at": format_optional(job.finished_at),
    }


def detail(job: JobDetail) -> dict[str, Any]:
    """A job whole, its payload as it was sent."""
    return {
        **summary(job),
        **callback(job),
        "follows_job_id": None if job.follows_job_id is None else str(job.follows_job_id),
        "planned_attempts": [format_instant(planned.at) for planned in planned_attempts(job)],
    }


def execution(row: ExecutionRow) -> dict[str, Any]:
    return {
        "number": row.number,
        "attempt": row.attempt,
        "status": row.status,
        "due_at": format_instant(row.due_at),
        "started_at": format_instant(row.started_at),
        "finished_at": format_instant(row.finished_at),
        "status_code": row.status_code,
        "error_class": row.error_class,
        "error": row.error,
        "timings": row.timings,
        "response_headers": row.response_headers,
        "response_body": row.response_body,
        "worker": None if row.worker is None else str(row.worker),
    }


def request(sent: Sent) -> dict[str, Any]:
    """What an attempt sent, and the same as a command."""
    fields = sent.header_fields
    return {
        "request": {
            "method": sent.method,
            "url": sent.callback_url,
            "headers": dict(signed(fields)),
            "body": sent.payload,
            "content_type": content_type_of(sent.payload, sent.content_type),
        },
        "as_curl": curl(sent.callback_url, fields, sent.payload, sent.method),
    }
