"""Cron entries: creating, changing, pausing, running them now or for times past. What fires them is app.jobs.fire."""

from app.cron_entries.backfill import backfill
from app.cron_entries.changes import change, create, remove, replace
from app.cron_entries.definition import Change, Definition, Template
from app.cron_entries.pauses import pause, resume
from app.cron_entries.reading import Entry, get, list_entries
from app.cron_entries.schedule import preview, read_schedule
from app.cron_entries.trigger import trigger

__all__ = [
    "Change",
    "Definition",
    "Entry",
    "Template",
    "backfill",
    "change",
    "create",
    "get",
    "list_entries",
    "pause",
    "preview",
    "read_schedule",
    "remove",
    "replace",
    "resume",
    "trigger",
]
