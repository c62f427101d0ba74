"""The flask commands: keys, users, trial callbacks, signing secrets, schedules from a file, a doctor, and running everything on one machine."""

from __future__ import annotations

import sys

import click
from flask import Flask

from app.cli_callback import callback
from app.cli_cron import cron
from app.cli_doctor import doctor
from app.cli_keys import apikey
from app.cli_secret import secret
from app.cli_users import user
from app.config import ConfigurationError, Settings


def register(app: Flask, settings: Settings) -> None:
    """Adds Punctual's commands to `flask`."""
    for command in (apikey, callback, cron, doctor, secret, user, up):
        app.cli.add_command(command)


@click.command("up")
@click.option(
    "--demo", is_flag=True, help="Fill the database with made-up jobs and cron entries for a look at the dashboard."
)
@click.pass_context
def up(context: click.Context, demo: bool) -> None:
    """Run everything on this machine: databases, web, worker, scheduler and a demo receiver."""
    from app import supervisor
    from app.cli_database import command_settings

    try:
        sys.exit(supervisor.up(command_settings(context), demo))
    except ConfigurationError as error:
        raise click.ClickException(str(error)) from error
