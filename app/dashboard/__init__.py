"""The dashboard: server-rendered pages for people, behind a sign-in."""

from __future__ import annotations

from flask import Flask

from app.dashboard import (
    assets,
    audit,
    clients,
    context,
    cookies,
    cron,
    dead_letters,
    errors,
    executions,
    headers,
    jobs,
    live,
    overview,
    processes,
    queues,
    session,
    users,
)
from app.dashboard.blueprint import bp
from app.extensions import bootstrap, login_manager

# Each page's own blueprint; its sidebar entry is in app.dashboard.nav, its templates in templates/<page>/.
for _page in (session, overview, jobs, cron, dead_letters, executions, queues, processes, clients, users, audit, live):
    bp.register_blueprint(_page.bp)


def register(app: Flask) -> None:
    """Adds the pages. The errors of programs' addresses must have been registered before (app.errors)."""
    app.config.update(BOOTSTRAP_SERVE_LOCAL=True)
    bootstrap.init_app(app)
    # The cookie is bound to no address: a phone changes it between two pages.
    login_manager.session_protection = None
    for part in (cookies, headers, assets, context, errors):
        part.register(app)
    app.register_blueprint(bp)
