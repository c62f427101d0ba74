"""Punctual's shared core, and the Flask application that serves the API and the dashboard."""

from __future__ import annotations

from flask import Flask

from app.config import Settings


def create_app(settings: Settings | None = None) -> Flask:
    """The Flask application. Raises ConfigurationError when a setting is missing or cannot be used."""
    from app.web import build_app

    return build_app(settings or Settings.from_env())
