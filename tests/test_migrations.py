"""Migrations: the models say what the last one leaves, each can be undone, and any number of hosts may start at once."""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from flask_migrate import downgrade, upgrade
from sqlalchemy import Engine, inspect, make_url, text

from app import create_app
from app.config import Settings, child_environment
from app.database import make_engine
from app.extensions import db
from app.models import Base
from tests.processes import ROOT


@pytest.fixture
def scratch(settings: Settings, engine: Engine) -> Iterator[Engine]:
    """An empty database of its own."""
    name = f"scratch_{secrets.token_hex(4)}"
    with engine.connect() as conn:
        conn.execution_options(isolation_level="AUTOCOMMIT").execute(text(f"CREATE DATABASE {name}"))
    url = make_url(settings.require_stores()[0]).set(database=name)
    scratch = make_engine(url.render_as_string(hide_password=False), 2)
    yield scratch
    scratch.dispose()
    with engine.connect() as conn:
        conn.execution_options(isolation_level="AUTOCOMMIT").execute(text(f"DROP DATABASE {name} WITH (FORCE)"))


def url_of(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


def start_upgrade(settings: Settings, scratch: Engine) -> subprocess.Popen[str]:
    """`flask db upgrade` on the scratch database, as a host runs it."""
    env = child_environment(
        DATABASE_URL=url_of(scratch),
        REDIS_URL=settings.require_stores()[1],
        SECRET_KEY="of the tests",
        PYTHONTZPATH="",
    )
    command = (sys.executable, "-m", "flask", "--app", "wsgi", "db", "upgrade")
    return subprocess.Popen(command, cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def finish(*running: subprocess.Popen[str]) -> None:
    for process in running:
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, output


def differences(engine: Engine) -> list[object]:
    with engine.connect() as conn:
        context = MigrationContext.configure(conn, opts={"compare_type": True})
        return list(compare_metadata(context, Base.metadata))


def schema(engine: Engine) -> list[tuple[object, ...]]:
    """Columns, constraints, indexes and functions, as PostgreSQL tells them."""
    query = """
        SELECT 'column', table_name, column_name, data_type || is_nullable || coalesce(column_default, '')
        FROM information_schema.columns WHERE table_schema = 'public'
        UNION ALL SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace
        UNION ALL SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
        UNION ALL SELECT 'function', '', proname, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace
        ORDER BY 1, 2, 3
    """
    with engine.connect() as conn:
        return [tuple(row) for row in conn.execute(text(query))]


def test_the_models_say_what_the_last_migration_leaves(engine: Engine) -> None:
    assert differences(engine) == []


def test_migrations_are_numbered_in_one_line() -> None:
    script = ScriptDirectory(str(ROOT / "migrations"))
    revisions = list(reversed(list(script.walk_revisions())))
    assert [revision.revision for revision in revisions] == [f"{number:04}" for number in range(1, len(revisions) + 1)]
    assert all(revision.doc for revision in revisions)


def test_three_hosts_at_once_migrate_down_and_up_again(settings: Settings, scratch: Engine) -> None:
    finish(*(start_upgrade(settings, scratch) for _ in range(3)))
    assert differences(scratch) == []
    before = schema(scratch)
    with scratch.connect() as conn:
        assert conn.execute(text("SELECT count(*) FROM leader")).scalar_one() == 1
    with create_app(replace(settings, database_url=url_of(scratch))).app_context():
        downgrade(revision="base")
        assert_is_empty(scratch)
        upgrade()
        db.engine.dispose()
    assert schema(scratch) == before


def assert_is_empty(scratch: Engine) -> None:
    assert inspect(scratch).get_table_names() == ["alembic_version"]
    assert {row[1] for row in schema(scratch)} == {"alembic_version"}
