"""How who looks at the page wants it: their time zone and theme, from cookies that hold nothing else."""

from __future__ import annotations

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

from flask import g, request

from app.cron import TIMEZONE_NAMES

ZONE_COOKIE = "punctual_tz"
THEME_COOKIE = "punctual_theme"
THEMES = ("auto", "light", "dark")
COOKIE_SECONDS = 365 * 24 * 3600


def zone_name() -> str:
    """The browser's time zone as static/time.js told it; UTC before that, or when it is no zone we know."""
    name = request.cookies.get(ZONE_COOKIE, "")
    return name if name in TIMEZONE_NAMES else "UTC"


def zone() -> tzinfo:
    """The viewer's time zone. Looked up once a request."""
    if "viewer_zone" not in g:
        name = zone_name()
        g.viewer_zone = UTC if name == "UTC" else ZoneInfo(name)
    found: tzinfo = g.viewer_zone
    return found


def theme() -> str:
    """`light`, `dark`, or `auto`: as the system is."""
    value = request.cookies.get(THEME_COOKIE, "")
    return value if value in THEMES else "auto"
