"""Puts the Flask application together: settings, extensions, blueprints, the command line."""

from __future__ import annotations

from pathlib import Path

from flask import Flask

from app import api, cli, crash_points, dashboard, health, metrics, request_log
from app.config import Settings
from app.database import engine_options
from app.error_reports import start_error_reports
from app.extensions import csrf, db, login_manager, migrate
from app.logs import configure_logging
from app.redis_client import WEB_TIMEOUT_SECONDS, Bypass, make_redis
from app.redis_keys import Keys
from app.spans import start_spans
from app.stores import Stores
from app.stream import Stream

ROOT = Path(__file__).resolve().parent.parent


def build_app(settings: Settings) -> Flask:
    configure_logging(settings)
    crash_points.arm(dict(settings.crash_points))
    app = Flask(
        "app",
        root_path=str(ROOT),
        template_folder=str(ROOT / "templates"),
        static_folder=str(ROOT / "static"),
    )
    app.extensions["settings"] = settings
    cli.register(app, settings)
    if not (settings.database_url and settings.redis_url):
        # `flask up` brings the stores itself; every other use asks for them by name.
        return app
    app.config.update(
        SECRET_KEY=settings.secret_key,
        SQLALCHEMY_DATABASE_URI=settings.database_url,
        SQLALCHEMY_ENGINE_OPTIONS=engine_options(settings.database_pool_size),
        MAX_CONTENT_LENGTH=settings.max_body_bytes,
    )
    db.init_app(app)
    migrate.init_app(app, db, directory=str(ROOT / "migrations"), compare_type=True)
    login_manager.init_app(app)
    csrf.init_app(app)
    with app.app_context():
        stream = Stream(make_redis(settings.redis_url, WEB_TIMEOUT_SECONDS), Keys(settings.redis_prefix))
        app.extensions["punctual"] = Stores(db.engine, stream, Bypass())
    start_error_reports(settings, "web")
    app.extensions["spans"] = start_spans(settings, "web")
    request_log.register(app)
    metrics.register(app)
    health.register(app, settings)
    api.register(app)
    dashboard.register(app)
    return app
