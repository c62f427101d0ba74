"""The flask commands, run as a person runs them, and what they say when something is wrong."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from flask import Flask
from flask.cli import ScriptInfo
from sqlalchemy import Connection, Engine, make_url, text

from app import create_app
from app.api_keys import create_api_key, look_up
from app.config import Settings
from app.embedded import EmbeddedStores
from app.users import create_user, find_user_by_name, sign_in

ROOT = Path(__file__).resolve().parent.parent
PASSWORD = "correct horse battery"


@dataclass
class Commands:
    """Runs `flask …` in this process on one set of settings."""

    app: Flask

    def __call__(self, *arguments: str, input: str | None = None) -> Result:
        result = CliRunner().invoke(
            self.app.cli, arguments, input=input, obj=ScriptInfo(create_app=lambda: self.app), catch_exceptions=False
        )
        assert "Traceback" not in result.output
        return result


@pytest.fixture
def flask(app: Flask) -> Commands:
    return Commands(app)


def on(environ: Mapping[str, str]) -> Commands:
    return Commands(create_app(Settings.from_env(environ)))


def test_a_key_is_printed_once_and_works(flask: Commands, engine: Engine, db_conn: Connection) -> None:
    result = flask("apikey", "create", "--client-name", "demo", "--rate-limit", "60", "--expires-in-days", "7")
    assert result.exit_code == 0
    key = result.stdout.strip()
    assert re.fullmatch(r"pk_[A-Za-z0-9_-]{43}", key)
    bearer = look_up(engine, key)
    assert bearer is not None
    assert (bearer.client_name, bearer.rate_limit) == ("demo", 60)
    assert bearer.expires_in_seconds is not None
    assert 7 * 86_400 - 60 < bearer.expires_in_seconds <= 7 * 86_400
    assert key not in flask("apikey", "list").output


def test_keys_are_listed_with_their_state(flask: Commands, engine: Engine) -> None:
    assert "no keys yet" in flask("apikey", "list").output
    first = create_api_key(engine, "demo", label="nightly")
    second = create_api_key(engine, "demo", rate_limit=60)
    flask("apikey", "revoke", first.prefix)
    head, *rows = [re.split(r"\s{2,}", line) for line in flask("apikey", "list").stdout.splitlines()]
    assert head[:4] == ["PREFIX", "CLIENT", "LABEL", "STATE"]
    assert rows[0][:4] == [first.prefix, "demo", "nightly", "revoked"]
    assert rows[1][:4] == [second.prefix, "demo", "-", "active"]
    assert rows[1][-1] == "60"


def test_a_key_is_revoked_by_its_prefix(flask: Commands, engine: Engine) -> None:
    made = create_api_key(engine, "demo")
    assert flask("apikey", "revoke", made.prefix).exit_code == 0
    assert look_up(engine, made.key) is None
    assert "before" in flask("apikey", "revoke", made.prefix).output
    missing = flask("apikey", "revoke", "pk_unknown")
    assert (missing.exit_code, "no key with the prefix" in missing.output) == (1, True)


@pytest.mark.parametrize(
    ("options", "exit_code", "words"),
    [
        ([], 2, "--client-name"),
        (["--client-name", " "], 1, "client name"),
        (["--client-name", "demo", "--rate-limit", "0"], 1, "rate limit"),
        (["--client-name", "demo", "--rate-limit", "many"], 2, "integer"),
        (["--client-name", "demo", "--rate-limit", "99999999999999999999"], 1, "rate limit"),
        (["--client-name", "demo", "--expires-in-days", "-1"], 1, "days"),
        (["--client-name", "demo", "--expires-in-days", "99999999999999999999"], 1, "days"),
        (["--client-name", "demo", "--label", "x" * 129], 1, "label"),
    ],
)
def test_bad_options_get_a_sentence(flask: Commands, options: list[str], exit_code: int, words: str) -> None:
    result = flask("apikey", "create", *options)
    assert result.exit_code == exit_code
    assert words in result.output


def test_a_user_is_made_with_a_password_asked_twice(flask: Commands, engine: Engine) -> None:
    result = flask("user", "create", "ada", "--role", "admin", input=f"{PASSWORD}\n{PASSWORD}\n")
    assert result.exit_code == 0
    assert PASSWORD not in result.output
    assert sign_in(engine, "ada", PASSWORD) is not None


def test_a_user_is_made_with_a_generated_password(flask: Commands, engine: Engine) -> None:
    result = flask("user", "create", "ada", "--role", "operator", "--generate-password")
    assert result.exit_code == 0
    assert sign_in(engine, "ada", result.stdout.strip()) is not None


def test_a_password_is_set_anew(flask: Commands, engine: Engine) -> None:
    create_user(engine, "ada", "admin", PASSWORD)
    result = flask("user", "set-password", "ada", "--generate-password")
    assert result.exit_code == 0
    assert sign_in(engine, "ada", PASSWORD) is None
    assert sign_in(engine, "ada", result.stdout.strip()) is not None


def test_users_are_listed_disabled_and_enabled(flask: Commands, engine: Engine) -> None:
    assert "no users yet" in flask("user", "list").output
    create_user(engine, "ada", "admin", PASSWORD)
    for command, state in (
        ("disable", "disabled"),
        ("disable", "disabled"),
        ("enable", "enabled"),
        ("enable", "enabled"),
    ):
        assert flask("user", command, "ada").exit_code == 0
        assert flask("user", "list").stdout.splitlines()[1].split()[:3] == ["ada", "admin", state]


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (["create", "ada"], 2, "--role"),
        (["create", "ada", "--role", "root"], 2, "viewer"),
        (["create", "a b", "--role", "admin", "--generate-password"], 1, "user name"),
        (["create", "bob", "--role", "admin", "--generate-password"], 1, "already"),
        (["disable", "nobody"], 1, "no user named nobody"),
        (["enable", "nobody"], 1, "no user named nobody"),
        (["set-password", "nobody"], 1, "no user named nobody"),
    ],
)
def test_bad_calls_get_a_sentence(
    flask: Commands, engine: Engine, arguments: list[str], exit_code: int, words: str
) -> None:
    create_user(engine, "bob", "admin", PASSWORD)
    result = flask("user", *arguments)
    assert result.exit_code == exit_code
    assert words in result.output


def test_a_weak_password_makes_no_user(flask: Commands, engine: Engine) -> None:
    result = flask("user", "create", "ada", "--role", "admin", input="short\nshort\n")
    assert (result.exit_code, "10 to 256 characters" in result.output) == (1, True)
    assert find_user_by_name(engine, "ada") is None


def test_without_a_database_it_says_which_setting_is_missing(tmp_path: Path) -> None:
    result = on({"DATA_DIR": str(tmp_path)})("apikey", "list")
    assert (result.exit_code, "DATABASE_URL is not set" in result.output) == (1, True)


def test_the_database_of_make_up_is_found_in_its_data_folder(
    stores: EmbeddedStores, engine: Engine, tmp_path: Path
) -> None:
    (tmp_path / "credentials.json").write_text(json.dumps({"database_url": stores.database_url}))
    result = on({"DATA_DIR": str(tmp_path)})("apikey", "create", "--client-name", "demo")
    assert result.exit_code == 0
    assert look_up(engine, result.stdout.strip()) is not None
    production = {"PUNCTUAL_ENV": "production", "SECRET_KEY": "of the tests"}
    assert on({"DATA_DIR": str(tmp_path), **production})("apikey", "list").exit_code == 1


def test_a_database_that_cannot_be_reached_gets_a_sentence(tmp_path: Path) -> None:
    result = on({"DATABASE_URL": "postgresql://me:hidden@127.0.0.1:1/x", "DATA_DIR": str(tmp_path)})("apikey", "list")
    assert (result.exit_code, "PostgreSQL cannot be reached" in result.output) == (1, True)
    assert "hidden" not in result.output


@pytest.fixture
def empty_database_url(stores: EmbeddedStores, db_conn: Connection) -> Iterator[str]:
    db_conn.execute(text("CREATE DATABASE without_tables"))
    yield make_url(stores.database_url).set(database="without_tables").render_as_string(hide_password=False)
    db_conn.execute(text("DROP DATABASE without_tables WITH (FORCE)"))


def test_a_database_without_tables_gets_a_sentence(empty_database_url: str) -> None:
    flask = on({"DATABASE_URL": empty_database_url})
    for arguments in (["apikey", "list"], ["apikey", "create", "--client-name", "demo"], ["user", "list"]):
        result = flask(*arguments)
        assert (result.exit_code, "flask db upgrade" in result.output) == (1, True)


@pytest.mark.parametrize(("environ", "words"), [({}, "DATABASE_URL is not set"), ({"PORT": "none"}, "PORT is 'none'")])
def test_the_command_itself_ends_with_a_sentence(environ: dict[str, str], words: str, tmp_path: Path) -> None:
    stores = ("DATABASE_URL", "REDIS_URL", "FLASK_APP")
    env = {name: value for name, value in os.environ.items() if name not in stores}
    command = [sys.executable, "-m", "flask", "apikey", "list"]
    env |= {"DATA_DIR": str(tmp_path), **environ}
    ended = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode != 0
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr
