"""The application that gunicorn and the flask command load."""

from __future__ import annotations

from app import create_app

app = create_app()
