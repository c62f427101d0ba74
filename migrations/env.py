"""Runs the migrations on the application's own engine, one host at a time."""

from __future__ import annotations

from alembic import context
from flask import current_app
from sqlalchemy import text

from app.models import Base

# Any number of hosts may start `flask db upgrade` at once: this advisory lock lets one go first.
LOCK = 7_230_519_004

if context.is_offline_mode():
    context.configure(dialect_name="postgresql", target_metadata=Base.metadata, literal_binds=True)
    with context.begin_transaction():
        context.run_migrations()
else:
    engine = current_app.extensions["migrate"].db.engine
    with engine.connect() as connection:
        connection.execute(text("SELECT set_config('lock_timeout', '30s', false)"))
        context.configure(connection=connection, target_metadata=Base.metadata, compare_type=True)
        with context.begin_transaction():
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
            context.run_migrations()
        connection.commit()
