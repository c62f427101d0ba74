"""flask cron apply: what it shows, what it does, and what it refuses as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from flask import Flask
from sqlalchemy import Connection, text

from tests.factories import make_client
from tests.test_cli import Commands

NIGHTLY = """
client: acme
cron_jobs:
  - name: nightly report
    cron_expression: "30 2 * * *"
    timezone: Europe/Berlin
    description: |
      Counts the day's orders.
    job_template:
      type: report
      payload: {day: 2026-01-01, at: 12:30, on: yes, count: 1, share: 1.5, nothing: null, code: 010}
      callback_url: http://127.0.0.1:9/hook
"""
HOURLY = """
  - name: hourly
    cron_expression: "@hourly"
    overlap: buffer_one
    job_template: {type: tick, payload: [], callback_url: "http://127.0.0.1:9/hook"}
"""


@pytest.fixture
def client_id(db_conn: Connection) -> int:
    return make_client(db_conn, "acme")


class Apply:
    """Writes a file and runs the command on it."""

    def __init__(self, flask: Commands, folder: Path) -> None:
        self._flask = flask
        self._path = folder / "cron.yaml"

    def __call__(self, content: str, *options: str) -> Result:
        self._path.write_text(content, encoding="utf-8")
        return self._flask("cron", "apply", str(self._path), *options)

    def refused(self, content: str, *options: str) -> str:
        result = self(content, *options)
        assert result.exit_code == 1, result.output
        return str(result.output)


@pytest.fixture
def apply(app: Flask, client_id: int, tmp_path: Path) -> Apply:
    return Apply(Commands(app), tmp_path)


def entries(conn: Connection) -> dict[str, Any]:
    return {row.name: row for row in conn.execute(text("SELECT * FROM cron_entries ORDER BY id"))}


def lines(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return [line.strip() for line in result.output.splitlines()]


def test_a_new_file_adds_its_entries_and_again_does_nothing(apply: Apply, db_conn: Connection, client_id: int) -> None:
    assert lines(apply(NIGHTLY + HOURLY)) == ["+ add     hourly", "+ add     nightly report", "2 added."]
    made = entries(db_conn)
    nightly = made["nightly report"]
    assert (nightly.client_id, nightly.timezone, nightly.overlap) == (client_id, "Europe/Berlin", "skip")
    assert (made["hourly"].expression, made["hourly"].overlap) == ("@hourly", "buffer_one")
    assert nightly.payload == (
        '{"day": "2026-01-01", "at": "12:30", "on": "yes", "count": 1, "share": 1.5, "nothing": null, "code": "010"}'
    )
    assert lines(apply(NIGHTLY + HOURLY)) == ["Nothing to do: all of it is as the file says."]
    assert entries(db_conn) == made
    actors = db_conn.execute(text("SELECT DISTINCT actor_kind, actor FROM audit_log")).all()
    assert [tuple(row) for row in actors] == [("command", "flask cron apply")]


def test_a_dry_run_shows_and_does_nothing(apply: Apply, db_conn: Connection) -> None:
    shown = lines(apply(NIGHTLY, "--dry-run"))
    assert shown[0] == "+ add     nightly report" and shown[-1].endswith("Nothing was changed.")
    assert entries(db_conn) == {}
    apply(NIGHTLY)
    before = entries(db_conn)
    other = NIGHTLY.replace("30 2", "45 3")
    assert "cron_expression: 30 2 * * * -> 45 3 * * *" in lines(apply(other, "--dry-run", "--prune"))
    assert entries(db_conn) == before


def test_what_changed_is_shown_field_by_field(apply: Apply, db_conn: Connection) -> None:
    apply(NIGHTLY)
    before = entries(db_conn)["nightly report"]
    changed = NIGHTLY.replace("type: report", "type: nightly").replace("count: 1", "count: 2")
    changed += "    ends_at: 2999-01-01T00:00:00Z\n    enabled: false\n"
    assert lines(apply(changed)) == [
        "~ change  nightly report",
        "job_template.type: report -> nightly",
        f"job_template.payload: {len(before.payload)} characters -> {len(before.payload)} others",
        "ends_at: none -> 2999-01-01T00:00:00Z",
        "| pause   nightly report",
        "1 changed, 1 paused.",
    ]
    after = entries(db_conn)["nightly report"]
    assert (after.enabled, after.id, after.next_run_at) == (False, before.id, before.next_run_at)
    assert lines(apply(changed)) == ["Nothing to do: all of it is as the file says."]
    # Left out, `enabled` leaves the pause alone.
    apply(NIGHTLY)
    assert not entries(db_conn)["nightly report"].enabled
    assert lines(apply(NIGHTLY + "    enabled: true\n"))[-1] == "1 resumed."


def test_pruning_deletes_what_has_a_name_and_is_not_in_the_file(
    apply: Apply, db_conn: Connection, client_id: int
) -> None:
    apply(NIGHTLY + HOURLY)
    for client, name in ((client_id, None), (make_client(db_conn, "others"), "hourly")):
        db_conn.execute(
            text(
                "INSERT INTO cron_entries (client_id, name, expression, timezone, job_type, payload, callback_url, callback_host,"
                " max_attempts) VALUES (:client, :name, '* * * * *', 'UTC', 't', '1', 'http://h/', 'h', 1)"
            ),
            {"client": client, "name": name},
        )
    assert lines(apply(NIGHTLY)) == ["Nothing to do: all of it is as the file says."]
    assert lines(apply(NIGHTLY, "--prune")) == ["- delete  hourly", "1 deleted."]
    left = db_conn.execute(
        text("SELECT client_id = :id AS ours, name FROM cron_entries ORDER BY id"), {"id": client_id}
    )
    assert [tuple(row) for row in left] == [(True, "nightly report"), (True, None), (False, "hourly")]


def test_one_bad_entry_changes_nothing_at_all(apply: Apply, db_conn: Connection) -> None:
    told = apply.refused(NIGHTLY + HOURLY.replace("@hourly", "61 * * * *"))
    assert "hourly: cron_expression" in told
    # What only the database can tell comes after the others were written.
    told = apply.refused(NIGHTLY + HOURLY + "    ends_at: 2020-01-01T00:00:00Z\n")
    assert "ends_at" in told
    assert entries(db_conn) == {}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "cron_jobs"),
        ("[]", "cron_jobs"),
        ("cron_jobs: {}", "cron_jobs"),
        ("cron_jobs: []\nwhat: 1", "nothing else"),
        ("cron_jobs:\n  - 1", "cron job 1"),
        ("client: 5\ncron_jobs: []", "client"),
        ("cron_jobs: []", "--client-name"),
        ("client: nobody\ncron_jobs: []", "no client nobody"),
        ("cron_jobs: [", "line 1"),
        ("a: &x 1\na: 2", "a is given more than once"),
        ("!!python/object:os.system x", "not YAML"),
        (NIGHTLY.replace('"30 2 * * *"', "*/5 * * * *"), "in quotes"),
        (NIGHTLY.replace("name: nightly report\n    ", ""), "name"),
        (NIGHTLY.replace("name: nightly report", "name: ''"), "name"),
        (NIGHTLY + NIGHTLY.partition("cron_jobs:\n")[2], "two cron jobs"),
        (NIGHTLY.replace("timezone: Europe/Berlin", "timezone: Mars/Phobos"), "nightly report: timezone"),
        (NIGHTLY.replace("127.0.0.1", "169.254.169.254"), "callback_url"),
        (NIGHTLY.replace("type: report", "type: 5"), "job_template.type"),
        (NIGHTLY + "    colour: red\n", "colour"),
        (NIGHTLY + "    overlap: maybe\n", "overlap"),
        (NIGHTLY + "    starts_at: 2030-01-02T00:00:00Z\n    ends_at: 2030-01-01T00:00:00Z\n", "ends_at"),
        (NIGHTLY.replace("count: 1", "count: 1, count: 2"), "count is given more than once"),
    ],
)
def test_a_file_that_cannot_be_applied_is_refused_in_words(
    apply: Apply, db_conn: Connection, content: str, words: str
) -> None:
    assert words in apply.refused(content)
    assert entries(db_conn) == {}


def test_the_client_can_be_named_on_the_command_line(apply: Apply, db_conn: Connection) -> None:
    unnamed = NIGHTLY.replace("client: acme\n", "")
    assert lines(apply(unnamed, "--client-name", "acme"))[-1] == "1 added."
    make_client(db_conn, "other")
    assert "acme" in apply.refused(NIGHTLY, "--client-name", "other")
