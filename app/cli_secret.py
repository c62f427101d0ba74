"""flask secret: what a client's callbacks are signed with."""

from __future__ import annotations

import click
from sqlalchemy import Connection

from app import audit
from app.cli_database import database
from app.cli_table import instant
from app.clients import DEFAULT_GRACE_HOURS, find_client, rotate_secret, signing_secret
from app.database import transaction

secret = click.Group("secret", help="Show and rotate the secrets that callbacks are signed with.")


@secret.command("show")
@click.option("--client-name", required=True, metavar="NAME", help="Whose secret.")
@click.pass_context
def show(context: click.Context, client_name: str) -> None:
    """Print a client's signing secret, for its receivers."""
    with database(context) as engine, transaction(engine) as conn:
        _tell(conn, _find(conn, client_name))


@secret.command("rotate")
@click.option("--client-name", required=True, metavar="NAME", help="Whose secret.")
@click.option(
    "--grace-hours",
    type=int,
    default=DEFAULT_GRACE_HOURS,
    show_default=True,
    metavar="N",
    help="For how long callbacks are signed with the old one as well; 0 to 168.",
)
@click.pass_context
def rotate(context: click.Context, client_name: str, grace_hours: int) -> None:
    """Make a new signing secret for a client, and print it."""
    with database(context) as engine, transaction(engine) as conn:
        client_id = _find(conn, client_name)
        rotate_secret(conn, client_id, grace_hours)
        detail = {"grace_hours": grace_hours}
        action, target = "client.rotate_secret", str(client_id)
        audit.record(conn, "command", "flask secret rotate", client_id, action, "client", target, detail)
        _tell(conn, client_id)


def _find(conn: Connection, name: str) -> int:
    client_id = find_client(conn, name)
    if client_id is None:
        raise click.ClickException(f"There is no client {name}: see `flask apikey list`.")
    return client_id


def _tell(conn: Connection, client_id: int) -> None:
    """The secret on a line of its own, and what else there is to know where a pipe does not take it."""
    found = signing_secret(conn, client_id)
    click.echo(found.current)
    if found.previous_expires_at is not None:
        until = instant(found.previous_expires_at)
        click.echo(f"Until {until} callbacks are signed with the secret before it as well.", err=True)
