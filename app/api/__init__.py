"""The JSON API under /v1, and its contract at /openapi.json and /docs."""

from __future__ import annotations

from flask import Flask

from app import errors
from app.api import (
    batch,
    bulk,
    cron_actions,
    cron_jobs,
    dead_letters,
    docs,
    entry_ids,
    executions,
    job_changes,
    jobs,
    queue_names,
    queues,
    signing_secret,
    test_callback,
)
from app.api.blueprint import bp
from app.extensions import csrf

__all__ = [
    "batch",
    "bp",
    "bulk",
    "cron_actions",
    "cron_jobs",
    "dead_letters",
    "docs",
    "executions",
    "job_changes",
    "jobs",
    "queues",
    "register",
    "signing_secret",
    "test_callback",
]


def register(app: Flask) -> None:
    """Adds the routes and the shape of errors. Keys, not cookies, say who calls, so forged forms are no danger here."""
    errors.register(app)
    csrf.exempt(bp)
    entry_ids.register(app)
    queue_names.register(app)
    app.register_blueprint(bp)
    app.register_blueprint(docs.bp)
