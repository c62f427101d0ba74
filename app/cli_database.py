"""How commands reach the database, and what a person is told when that fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import click
from flask.cli import ScriptInfo
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from app.config import Settings
from app.database import is_connection_lost, make_engine, sqlstate

NOT_SET = (
    "DATABASE_URL is not set: give it as postgresql://user:password@host/database. "
    "(For the database of `make up`, start that first; its DATA_DIR is looked into.)"
)
UNDEFINED = {"42P01", "42703", "42883"}


def command_settings(context: click.Context) -> Settings:
    """The settings of the application that `flask` loaded for this command."""
    app = context.ensure_object(ScriptInfo).load_app()
    return cast(Settings, app.extensions["settings"])


@contextmanager
def database(context: click.Context) -> Iterator[Engine]:
    """The database for one command. Its errors become one sentence and exit code 1; so do our own, which are ValueErrors."""
    url = _database_url(command_settings(context))
    if url is None:
        raise click.ClickException(NOT_SET)
    engine = make_engine(url, 1)
    try:
        yield engine
    except SQLAlchemyError as error:
        raise click.ClickException(_explain(error)) from error
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    finally:
        engine.dispose()


def _database_url(settings: Settings) -> str | None:
    """DATABASE_URL, or the one that `make up` wrote into its DATA_DIR."""
    if settings.database_url or settings.is_production:
        return settings.database_url
    return made_here(settings)[0]


def made_here(settings: Settings) -> tuple[str | None, str | None]:
    """The URLs of PostgreSQL and Redis that `make up` wrote into its DATA_DIR; None where there is none."""
    try:
        told = json.loads((settings.data_dir / "credentials.json").read_text(encoding="utf-8"))
        return "postgresql+psycopg://" + told["database_url"].split("://", 1)[1], told.get("redis_url")
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        return None, None


def _explain(error: SQLAlchemyError) -> str:
    """One sentence for a person. PostgreSQL's own words name host and database, and never the password."""
    words = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
    if sqlstate(error) in UNDEFINED:
        return "The database has not this version's tables: run `flask db upgrade` first."
    if is_connection_lost(error):
        return f"PostgreSQL cannot be reached, or does not let us in: {words}"
    return f"PostgreSQL refused: {words}"
