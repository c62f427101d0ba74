"""flask callback: try an address from the command line."""

from __future__ import annotations

import re
from typing import Any

import click

from app.api.reading import validated
from app.api.schemas_trial import TrialFields
from app.api.strict_json import NotStrictJson, Raw, parse
from app.attempts import Answer
from app.callback import DEFAULT_METHOD, METHODS
from app.callback_url import CallbackUrlRefused, Target
from app.callback_url import parse as parse_url
from app.cli_database import command_settings, database
from app.clients import find_client
from app.config import Settings
from app.database import autocommit
from app.errors import ApiError
from app.trials import make_trial

PHASES = {
    "dns": "name looked up",
    "connect": "connected",
    "tls": "TLS agreed",
    "first_byte": "first byte",
    "total": "over",
}
# A receiver's bytes must not move the cursor, or worse.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

callback = click.Group("callback", help="Try the addresses that jobs call.")


@callback.command("test")
@click.argument("url", metavar="URL")
@click.option("--method", type=click.Choice(METHODS, case_sensitive=False), default=DEFAULT_METHOD, show_default=True)
@click.option("--header", "headers", multiple=True, metavar="NAME:VALUE", help="A header to send; may be repeated.")
@click.option("--payload", metavar="JSON", help="What is sent; an empty object when neither this nor --body is given.")
@click.option("--body", metavar="TEXT", help="In place of a payload: any text.")
@click.option("--content-type", metavar="TYPE", help="What the body is.")
@click.option("--timeout", type=float, metavar="SECONDS", help="For the whole call; at most 30.")
@click.option("--client-name", metavar="NAME", help="Sign with this client's secret; left out, nothing is signed.")
@click.pass_context
def test(context: click.Context, /, url: str, client_name: str | None, headers: tuple[str, ...], **given: Any) -> None:
    """Send one request to URL now, and show what comes back. Nothing is stored.

    Exit code 1 when it is not a success.
    """
    settings = command_settings(context)
    fields, target = _read(settings, {"callback_url": url, "headers": _headers(headers), **_renamed(given)})
    with database(context) as engine:
        client_id = None
        if client_name is not None:
            with autocommit(engine) as conn:
                client_id = find_client(conn, client_name)
            if client_id is None:
                raise click.ClickException(f"There is no client {client_name}: see `flask apikey list`.")
        answer = make_trial(engine, settings, client_id, fields.request(target))
    _show(answer)
    if answer.error_class is not None:
        context.exit(1)


def _renamed(given: dict[str, Any]) -> dict[str, Any]:
    """Options as the API's fields, without those that were not given."""
    if given["payload"] is not None:
        given["payload"] = _payload(given["payload"])
    given["timeout_seconds"] = given.pop("timeout")
    return {name: value for name, value in given.items() if value is not None}


def _payload(text: str) -> Raw:
    try:
        return Raw(text.strip(), parse(text.encode()))
    except NotStrictJson as error:
        raise click.BadParameter(str(error).replace("The body", "The payload"), param_hint="--payload") from None


def _headers(given: tuple[str, ...]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in given:
        name, colon, value = line.partition(":")
        if not colon:
            raise click.BadParameter(f"{line!r} has no colon: write NAME:VALUE.", param_hint="--header")
        if name in headers:
            raise click.BadParameter(f"{name} is given more than once.", param_hint="--header")
        headers[name] = value.strip()
    return headers


def _read(settings: Settings, values: dict[str, Any]) -> tuple[TrialFields, Target]:
    try:
        fields = validated(TrialFields, values)
        return fields, parse_url(fields.callback_url, settings.allowed_callback_cidrs)
    except ApiError as error:
        raise click.ClickException(error.message) from None
    except CallbackUrlRefused as refused:
        raise click.ClickException(str(refused)) from None


def _show(answer: Answer) -> None:
    if answer.error_class is None:
        click.echo(f"Succeeded: {answer.status_code}")
    else:
        click.echo(f"Failed ({answer.error_class}): {answer.error}")
    for name, words in PHASES.items():
        if name in answer.timings:
            click.echo(f"  {words:<15} {answer.timings[name]:>10.1f} ms")
    if answer.status_code is None:
        return
    click.echo("")
    for name, value in answer.response_headers:
        click.echo(f"{name}: {value}")
    click.echo(f"\n{_CONTROL.sub(chr(0xFFFD), answer.response_body)}")
    if answer.response_truncated:
        click.echo("(cut here)", err=True)
