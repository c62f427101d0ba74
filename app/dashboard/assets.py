"""Addresses of static files that change with their content, so that browsers may keep them for good."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from flask import Flask, Response, current_app, request, url_for

KEEP_FOR_GOOD = "public, max-age=31536000, immutable"


def register(app: Flask) -> None:
    app.jinja_env.globals["asset"] = asset
    app.after_request(_keep_versioned)


def asset(filename: str) -> str:
    """The address of a file in static/, with a digest of its content."""
    path = Path(str(current_app.static_folder)) / filename
    return url_for("static", filename=filename, v=_digest(path, path.stat().st_mtime_ns))


@cache
def _digest(path: Path, _changed_ns: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def _keep_versioned(response: Response) -> Response:
    # Modules that import each other do so without a version: they are asked for again each time, and mostly answered 304.
    if request.endpoint == "static" and "v" in request.args and response.status_code == 200:
        response.headers["Cache-Control"] = KEEP_FOR_GOOD
    return response
