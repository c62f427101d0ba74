"""flask cron: schedules kept in a file, such as one in a repository."""

from __future__ import annotations

from pathlib import Path

import click

from app.cli_database import command_settings, database
from app.clients import find_client
from app.cron_entries.applying import Step, apply
from app.cron_file import CronFileRefused, read_cron_file
from app.database import transaction
from app.errors import ApiError
from app.jobs.bulk import By

BY = By("command", "flask cron apply")
SIGNS = {"add": "+", "change": "~", "pause": "|", "resume": ">", "delete": "-"}
DONE = {"add": "added", "change": "changed", "pause": "paused", "resume": "resumed", "delete": "deleted"}

cron = click.Group("cron", help="Keep cron jobs in a file.")


@cron.command("apply")
@click.argument("path", metavar="FILE.yaml", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--prune", is_flag=True, help="Delete the client's other cron jobs that have a name.")
@click.option("--client-name", metavar="NAME", help="Whose cron jobs they are, when the file does not say.")
@click.pass_context
def apply_(context: click.Context, path: Path, dry_run: bool, prune: bool, client_name: str | None) -> None:
    """Make a client's cron jobs what FILE.yaml says: all of it, or, when anything is wrong, nothing.

    A cron job is known by its name. The same file again changes nothing. `enabled: false` pauses one; where `enabled` is
    left out, a paused one stays paused.
    """
    settings = command_settings(context)
    try:
        held = read_cron_file(
            path.read_text(encoding="utf-8"), settings.allowed_callback_cidrs, settings.max_body_bytes
        )
    except (CronFileRefused, UnicodeDecodeError) as error:
        raise click.ClickException(f"{path}: {error}") from error
    client = client_name or held.client
    if client is None:
        raise click.ClickException("Whose cron jobs are they? Give --client-name NAME, or `client: NAME` in the file.")
    if held.client not in (None, client):
        raise click.ClickException(f"The file is for the client {held.client}, and --client-name says {client}.")
    with database(context) as engine, transaction(engine) as conn:
        client_id = find_client(conn, client)
        if client_id is None:
            raise click.ClickException(f"There is no client {client}: see `flask apikey create --client-name`.")
        try:
            steps = apply(conn, client_id, held.definitions, prune, BY)
        except ApiError as error:
            raise click.ClickException(error.message) from error
        if dry_run:
            conn.rollback()
    _tell(steps, dry_run)


def _tell(steps: list[Step], dry_run: bool) -> None:
    for step in steps:
        click.echo(f"{SIGNS[step.action]} {step.action:<6}  {step.name}")
        for field, before, after in step.fields:
            click.echo(f"            {field}: {before} -> {after}")
    counts = [
        f"{sum(step.action == action for step in steps)} {word}"
        for action, word in DONE.items()
        if any(step.action == action for step in steps)
    ]
    told = ", ".join(counts) if counts else "Nothing to do: all of it is as the file says"
    click.echo(f"{told}." if not dry_run or not counts else f"{told}: that is what it would do. Nothing was changed.")
