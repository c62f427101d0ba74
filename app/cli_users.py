"""flask user: make, list, disable and enable the people who sign in, and set their passwords."""

from __future__ import annotations

import click

from app.cli_database import database
from app.cli_table import instant, print_table
from app.models import ROLES
from app.passwords import generate_password
from app.users import create_user, disable_user, enable_user, find_user_by_name, list_users, set_password

user = click.Group("user", help="Make, list, disable and enable dashboard users.")
generate = click.option("--generate-password", is_flag=True, help="Make a random password and print it once.")


@user.command("create")
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), required=True, help="viewer sees, operator acts, admin manages.")
@generate
@click.pass_context
def create(context: click.Context, name: str, role: str, generate_password: bool) -> None:
    """Make a user NAME. The password is asked for, unless it is generated."""
    with database(context) as engine:
        password = _password(generate_password)
        made = create_user(engine, name, role, password)
    click.echo(f"{made.name} can sign in as {made.role}.", err=True)
    if generate_password:
        click.echo(password)


@user.command("set-password")
@click.argument("name")
@generate
@click.pass_context
def set_password_(context: click.Context, name: str, generate_password: bool) -> None:
    """Give the user NAME another password. Their sessions end."""
    with database(context) as engine:
        if find_user_by_name(engine, name) is None:
            raise _nobody(name)
        password = _password(generate_password)
        if set_password(engine, name, password) is None:
            raise _nobody(name)
    click.echo(f"{name} has another password; their sessions ended.", err=True)
    if generate_password:
        click.echo(password)


@user.command("list")
@click.pass_context
def list_(context: click.Context) -> None:
    """List all users."""
    with database(context) as engine:
        people = list_users(engine)
    print_table(
        ("NAME", "ROLE", "STATE", "CREATED", "LAST SIGN-IN"),
        [
            (
                person.name,
                person.role,
                "enabled" if person.is_enabled else "disabled",
                instant(person.created_at),
                instant(person.last_sign_in_at) if person.last_sign_in_at else "never",
            )
            for person in people
        ],
        "There are no users yet. Make one with: flask user create NAME --role admin",
    )


@user.command("disable")
@click.argument("name")
@click.pass_context
def disable(context: click.Context, name: str) -> None:
    """End the sessions of the user NAME, who can sign in no more."""
    with database(context) as engine:
        if disable_user(engine, name) is None and find_user_by_name(engine, name) is None:
            raise _nobody(name)
    click.echo(f"{name} is disabled.")


@user.command("enable")
@click.argument("name")
@click.pass_context
def enable(context: click.Context, name: str) -> None:
    """Let the disabled user NAME sign in again."""
    with database(context) as engine:
        if enable_user(engine, name) is None and find_user_by_name(engine, name) is None:
            raise _nobody(name)
    click.echo(f"{name} is enabled.")


def _password(is_generated: bool) -> str:
    if is_generated:
        return generate_password()
    password: str = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    return password


def _nobody(name: str) -> click.ClickException:
    return click.ClickException(f"There is no user named {name}: see `flask user list`.")
