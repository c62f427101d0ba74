"""`flask doctor`: looks at everything an operator must give, and says what is wrong."""

from __future__ import annotations

import sys
from dataclasses import replace

import click

from app.cli_database import command_settings, made_here
from app.doctor import examine, refeed
from app.stores import loop_stores

MARKS = {"ok": ("ok  ", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "red")}


@click.command("doctor")
@click.option("--repair", is_flag=True, help="Add every due job to Redis again; adding twice does no harm.")
@click.pass_context
def doctor(context: click.Context, repair: bool) -> None:
    """Check settings, stores, versions, clocks, migrations, processes and queues. Exits with 1 when something is wrong."""
    settings = command_settings(context)
    if not (settings.database_url or settings.redis_url or settings.is_production):
        database_url, redis_url = made_here(settings)
        settings = replace(settings, database_url=database_url, redis_url=redis_url)
    if not (settings.database_url and settings.redis_url):
        raise click.ClickException(
            "DATABASE_URL and REDIS_URL are not set, and `make up` has left none in its DATA_DIR."
        )
    stores = loop_stores(settings, 2)
    has_failed = False
    for finding in examine(settings, stores):
        mark, colour = MARKS[finding.level]
        click.echo(f"{click.style(mark, fg=colour)}  {finding.what}: {finding.words}")
        has_failed |= finding.level == "fail"
    if repair:
        click.echo(f"{refeed(stores):,} jobs were added to Redis again.")
    stores.engine.dispose()
    sys.exit(int(has_failed))
