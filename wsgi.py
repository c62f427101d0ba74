"""The application that gunicorn and the flask command load."""

from __future__ import annotations

import sys

from app import create_app
from app.config import ConfigurationError

try:
    app = create_app()
except ConfigurationError as error:
    sys.exit(f"Punctual cannot start. {error}")
