"""NAME_FILE: each secret can be given as a file, as Docker, Kubernetes and systemd hand them out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.config import ConfigurationError, EgressProxy, Settings
from tests.processes import ROOT

# Name, what the file holds, the setting, what it then is.
SECRETS = (
    ("DATABASE_URL", "postgresql://ada:s3cret@db/jobs", "database_url", "postgresql+psycopg://ada:s3cret@db/jobs"),
    ("REDIS_URL", "redis://:s3cret@redis:6379/0", "redis_url", "redis://:s3cret@redis:6379/0"),
    ("SECRET_KEY", "s3cret", "secret_key", "s3cret"),
    ("METRICS_TOKEN", "s3cret", "metrics_token", "s3cret"),
    ("EGRESS_PROXY", "http://ada:s3cret@proxy:3128", "egress_proxy", EgressProxy("proxy", 3128, "ada", "s3cret")),
    ("SENTRY_DSN", "https://s3cret@sentry.example/1", "sentry_dsn", "https://s3cret@sentry.example/1"),
)  # fmt: skip
EACH = pytest.mark.parametrize(("name", "value", "attribute", "expected"), SECRETS, ids=[row[0] for row in SECRETS])
NAMES = pytest.mark.parametrize(("name", "value"), [row[:2] for row in SECRETS], ids=[row[0] for row in SECRETS])


def read(**environ: str) -> Settings:
    return Settings.from_env({"LOG_LEVEL": "info", **environ})


def refusal(**environ: str) -> str:
    with pytest.raises(ConfigurationError) as raised:
        read(**environ)
    return str(raised.value)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "secret"


@EACH
def test_a_files_stripped_content_is_the_value(
    name: str, value: str, attribute: str, expected: object, path: Path
) -> None:
    path.write_text(f"  {value}\n\n")
    assert getattr(read(**{f"{name}_FILE": str(path)}), attribute) == expected
    assert getattr(read(**{name: value}), attribute) == expected


@NAMES
def test_the_value_and_its_file_together_are_refused(name: str, value: str, path: Path) -> None:
    path.write_text(value)
    assert (
        refusal(**{name: value, f"{name}_FILE": str(path)}) == f"{name} and {name}_FILE are both set: give one of them"
    )


@NAMES
@pytest.mark.parametrize("content", ["", " \n\t\n"])
def test_an_empty_file_is_refused(name: str, value: str, content: str, path: Path) -> None:
    path.write_text(content)
    words = f"{name}_FILE names '{path}', which is empty: put the value of {name} into it"
    assert refusal(**{f"{name}_FILE": str(path)}) == words


@NAMES
def test_a_file_that_cannot_be_read_is_refused(name: str, value: str, path: Path) -> None:
    assert refusal(**{f"{name}_FILE": str(path)}).startswith(f"{name}_FILE cannot be read: ")
    path.mkdir()
    assert str(path) in refusal(**{f"{name}_FILE": str(path)})
    path.rmdir()
    path.write_bytes(value.encode() + b"\xff")
    words = refusal(**{f"{name}_FILE": str(path)})
    assert words.startswith(f"{name}_FILE cannot be read: ") and "s3cret" not in words


@NAMES
def test_no_file_named_is_no_file(name: str, value: str) -> None:
    """Compose and env files say `NAME_FILE=` for "none"."""
    assert read(**{f"{name}_FILE": ""}) == read()


def test_every_secret_that_is_read_is_in_this_table_and_documented() -> None:
    names = set(re.findall(r'read\.\w+\("([A-Z_]+)"', (ROOT / "app" / "config.py").read_text()))
    secret = re.compile(r"_KEY$|_TOKEN$|_DSN$|_PROXY$|PASSWORD|SECRET|^(DATABASE|REDIS|SMTP)_URL$")
    assert {name for name in names if secret.search(name)} == {row[0] for row in SECRETS}
    document = (ROOT / "docs" / "configuration.md").read_text()
    section = document.partition("## Secrets")[2].partition("\n## ")[0]
    assert set(re.findall(r"`([A-Z_]+)_FILE`", section)) == {row[0] for row in SECRETS}
