"""flask apikey: make, list and revoke the keys that programs sign in with."""

from __future__ import annotations

from datetime import datetime

import click

from app.api_keys import create_api_key, list_api_keys, revoke_api_key
from app.cli_database import database
from app.cli_table import instant, print_table

apikey = click.Group("apikey", help="Make, list and revoke API keys.")


@apikey.command("create")
@click.option("--client-name", required=True, metavar="NAME", help="The client the key is for; made when it is new.")
@click.option("--label", metavar="TEXT", help="What the key is used for, to tell it from others.")
@click.option("--rate-limit", type=int, metavar="N", help="Requests a minute for this client, over all its keys.")
@click.option("--expires-in-days", type=int, metavar="N", help="The key ends by itself after this many days.")
@click.pass_context
def create(
    context: click.Context, client_name: str, label: str | None, rate_limit: int | None, expires_in_days: int | None
) -> None:
    """Make a key and print it. It cannot be shown again."""
    with database(context) as engine:
        made = create_api_key(engine, client_name, label=label, rate_limit=rate_limit, expires_in_days=expires_in_days)
    click.echo(made.key)
    click.echo(f"This is the only time the key is shown. Revoke it with: flask apikey revoke {made.prefix}", err=True)


@apikey.command("list")
@click.pass_context
def list_(context: click.Context) -> None:
    """List the keys of all clients. The keys themselves are not kept."""
    with database(context) as engine:
        keys = list_api_keys(engine)
    print_table(
        ("PREFIX", "CLIENT", "LABEL", "STATE", "CREATED", "LAST USED", "EXPIRES", "A MINUTE"),
        [
            (
                key["prefix"],
                key["client_name"],
                key["label"] or "-",
                key["state"],
                instant(key["created_at"]),
                _or_never(key["last_used_at"]),
                _or_never(key["expires_at"]),
                str(key["rate_limit_per_minute"] or "default"),
            )
            for key in keys
        ],
        "There are no keys yet. Make one with: flask apikey create --client-name NAME",
    )


@apikey.command("revoke")
@click.argument("prefix")
@click.pass_context
def revoke(context: click.Context, prefix: str) -> None:
    """Revoke the key whose PREFIX `flask apikey list` shows. It is refused within a second or two."""
    with database(context) as engine:
        outcome = revoke_api_key(engine, prefix)
    if outcome == "missing":
        raise click.ClickException(f"There is no key with the prefix {prefix}: see `flask apikey list`.")
    click.echo(f"{prefix} is revoked." if outcome == "revoked" else f"{prefix} was revoked before.")


def _or_never(at: datetime | None) -> str:
    return "never" if at is None else instant(at)
