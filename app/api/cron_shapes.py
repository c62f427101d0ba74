"""What a cron job and its occurrences look like in answers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from app.api.callback_shapes import placement, template
from app.callback import DEFAULT_METHOD
from app.cron_entries import Entry
from app.cron_occurrences import Stored
from app.instants import format_instant, format_optional


def shown(entry: Entry) -> dict[str, Any]:
    """A cron job."""
    next_run_at = entry.next_run_at if entry.enabled else None
    due_at = None if next_run_at is None else next_run_at + timedelta(milliseconds=entry.offset_ms)
    return {
        "id": entry.id,
        "name": entry.name,
        "description": entry.description,
        "cron_expression": entry.expression,
        "timezone": entry.timezone,
        "job_template": {
            "type": entry.job_type,
            "callback_url": entry.callback_url,
            **({} if entry.method == DEFAULT_METHOD else {"method": entry.method}),
            "max_attempts": entry.max_attempts,
            **placement(entry),
            **template(entry),
        },
        "overlap": entry.overlap,
        "catch_up": entry.catch_up,
        "catch_up_window_seconds": entry.catch_up_window_seconds,
        "starts_at": format_optional(entry.starts_at),
        "ends_at": format_optional(entry.ends_at),
        "jitter_seconds": entry.jitter_seconds,
        "enabled": entry.enabled,
        "next_run_at": format_optional(next_run_at),
        "next_due_at": format_optional(due_at),
        "last_run_at": format_optional(entry.last_run_at),
        "disabled_reason": entry.disabled_reason,
        "paused_at": format_optional(entry.paused_at),
        "pause_reason": entry.pause_reason,
        "paused_by": entry.paused_by,
        "created_at": format_instant(entry.created_at),
        "updated_at": format_instant(entry.updated_at),
    }


def occurrence(row: Stored) -> dict[str, Any]:
    """One planned time."""
    return {
        "nominal_at": format_instant(row.nominal_at),
        "due_at": format_instant(row.due_at or row.nominal_at),
        "status": row.status,
        "reason": row.reason,
        "detail": row.detail,
        "job_id": None if row.job_id is None else str(row.job_id),
        "through_at": format_optional(row.through_at),
        "count": row.count,
        "recorded_at": format_instant(row.created_at),
    }
