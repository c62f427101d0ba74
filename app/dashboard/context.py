"""What every template can use: filters for values, and functions about the viewer, the machinery and the pages there are."""

from __future__ import annotations

from datetime import datetime

from flask import Flask, g, request

from app import system_health
from app.current import punctual
from app.dashboard import callback_words, charts, formats, viewer
from app.dashboard.attempt_times import phases
from app.dashboard.nav import has_endpoint, navigation
from app.dashboard.roles import may
from app.instants import format_instant
from app.system_health import Health
from app.version import VERSION

FILTERS = (
    formats.plain,
    formats.shortened,
    formats.count,
    formats.capped,
    formats.about,
    formats.percent,
    formats.duration,
    formats.milliseconds,
    formats.size,
    formats.in_utc,
)


def register(app: Flask) -> None:
    env = app.jinja_env
    env.trim_blocks = env.lstrip_blocks = True
    env.filters.update({function.__name__: function for function in FILTERS})
    env.filters.update(rfc3339=format_instant, shown=shown, local=local)
    env.globals.update(
        may=may,
        has_endpoint=has_endpoint,
        navigation=navigation,
        health=health,
        now=now,
        viewer_zone=viewer.zone_name,
        theme=viewer.theme,
        here=here,
        version=VERSION,
        stacked=charts.stacked,
        polyline=charts.polyline,
        shares=charts.shares,
        phases=phases,
        callback_words=callback_words,
    )


def health() -> Health:
    """The machinery's state, looked up once a request."""
    if "system_health" not in g:
        g.system_health = system_health.look(punctual().engine)
    found: Health = g.system_health
    return found


def now() -> datetime:
    """PostgreSQL's time at this request, which relative times on the page count from."""
    return health().now


def here() -> str:
    """This page's path with its query, to come back to after a form."""
    return request.full_path.rstrip("?")


def local(at: datetime) -> str:
    """1 Dec 2026, 11:00:05 Europe/Berlin"""
    return f"{formats.full(at, viewer.zone())} {viewer.zone_name()}"


def shown(at: datetime, form: str) -> str:
    """An instant in one of the forms that static/time.js knows: relative, countdown, full, clock."""
    if form == "relative":
        return formats.relative(at, now())
    if form == "countdown":
        return formats.countdown(at, now())
    if form == "clock":
        return formats.clock(at, viewer.zone())
    return formats.full(at, viewer.zone())
