"""The application that gunicorn and the flask command load."""

from __future__ import annotations

import click

from app import create_app
from app.config import ConfigurationError

try:
    app = create_app()
except ConfigurationError as error:
    # One sentence for the operator, where a traceback would bury it.
    raise click.ClickException(str(error)) from error
