"""Stores for one measurement, migrated, with the application on them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flask import Flask
from flask_migrate import upgrade

from app import create_app
from app.config import Settings
from app.embedded import EmbeddedStores
from app.extensions import db


@contextmanager
def application() -> Iterator[Flask]:
    """The application within its context; its stores keep what a real one's keep, and are deleted after."""
    folder = Path(tempfile.mkdtemp(prefix="punctual-bench-"))
    folder.chmod(0o755)
    try:
        with EmbeddedStores.in_folder(folder / "data") as stores:
            app = create_app(
                Settings.from_env(
                    {
                        "DATABASE_URL": stores.database_url,
                        "REDIS_URL": stores.redis_url,
                        "SECRET_KEY": "of the benchmark",
                        "DATA_DIR": str(folder / "unused"),
                        "RATE_LIMIT_PER_MINUTE": "10000000",
                        "LOG_LEVEL": "error",
                    }
                )
            )
            with app.app_context():
                upgrade()
                yield app
                db.session.remove()
                db.engine.dispose()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
