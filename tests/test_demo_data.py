"""What `make demo` fills in: a believable day whose figures agree with one another, once, and never in a database in use."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import Connection, Engine, text

from app.config import Settings, child_environment
from app.demo_data import fill, refusal
from app.jobs.stats import BUCKETS
from tests.factories import make_client
from tests.pages import Person
from tests.processes import ROOT

PORT = 8080
TABLES = (
    "clients",
    "jobs",
    "executions",
    "minute_stats",
    "cron_entries",
    "cron_occurrences",
    "cron_totals",
    "audit_log",
)
# Each asks for rows that contradict each other, and is to find none.
CONTRADICTIONS = {
    "work that is late": """
        SELECT FROM jobs WHERE status = 'scheduled' AND run_at <= punctual_now() - interval '10 seconds'""",
    "minutes and attempts, by outcome": """
        SELECT minute, client_id, outcome, count FROM minute_stats EXCEPT
        SELECT date_trunc('minute', e.finished_at), j.client_id,
               CASE WHEN e.status = 'succeeded' THEN 'succeeded' WHEN e.attempt = j.attempts AND j.status = 'dead' THEN 'dead'
                    WHEN e.status = 'lost' THEN 'lost' ELSE 'retried' END, count(*)
        FROM executions e JOIN jobs j ON j.id = e.job_id GROUP BY 1, 2, 3""",
    "minutes and their buckets": """
        SELECT FROM minute_stats WHERE count <> (SELECT sum(n) FROM unnest(start_lag_buckets) n)
          OR count <> (SELECT sum(n) FROM unnest(callback_time_buckets) n)""",
    "a job's attempts and its executions": """
        SELECT FROM jobs j LEFT JOIN executions e ON e.job_id = j.id GROUP BY j.id
        HAVING j.attempts <> count(e.job_id) OR (j.status = 'done') <> (count(*) FILTER (WHERE e.status = 'succeeded') = 1)""",
    "a job's last error and its last attempt": """
        SELECT FROM jobs j JOIN executions e ON e.job_id = j.id AND e.attempt = j.attempts
        WHERE (j.last_error_class, j.last_status_code) IS DISTINCT FROM (e.error_class, e.status_code)""",
    "the order of a job's times": """
        SELECT FROM executions e JOIN jobs j ON j.id = e.job_id
        WHERE e.started_at < e.due_at OR e.finished_at < e.started_at OR e.finished_at > punctual_now()
          OR e.started_at < j.created_at OR j.finished_at < e.finished_at OR j.created_at > punctual_now()""",
    "an attempt after the one before it": """
        SELECT FROM executions e JOIN executions b ON b.job_id = e.job_id AND b.attempt = e.attempt - 1
        WHERE e.due_at < b.finished_at""",
    "ids in the order of their times": """
        SELECT FROM (SELECT created_at, lag(created_at) OVER (ORDER BY id) AS before FROM jobs) o
        WHERE created_at < before - interval '1 ms'""",
    "occurrences and their jobs": """
        SELECT FROM cron_occurrences o LEFT JOIN jobs j ON j.id = o.job_id
        WHERE o.status = 'fired' AND (j.cron_entry_id <> o.cron_entry_id OR j.scheduled_for <> o.due_at OR j.id IS NULL)""",
    "a job of an entry without its occurrence": """
        SELECT FROM jobs j WHERE cron_entry_id IS NOT NULL AND NOT EXISTS (SELECT FROM cron_occurrences WHERE job_id = j.id)""",
    "occurrences and their totals": """
        SELECT status, coalesce(reason, ''), sum(count) FROM cron_occurrences GROUP BY 1, 2 EXCEPT
        SELECT status, reason, sum(count) FROM cron_totals GROUP BY 1, 2""",
    "a time after the last that is on record": """
        SELECT FROM cron_entries e JOIN cron_occurrences o ON o.cron_entry_id = e.id WHERE o.nominal_at >= e.next_run_at""",
    "a call to come that does not go to the demo receiver": """
        SELECT FROM jobs WHERE status IN ('pending', 'scheduled') AND callback_host <> 'http://127.0.0.1:8080'""",
    "a host that somebody may own": """
        SELECT FROM jobs WHERE callback_host !~ '^http(://127\\.0\\.0\\.1:8080|s?://[a-z.]+\\.example:\\d+)$'""",
}  # fmt: skip


@pytest.fixture
def filled(engine: Engine) -> str:
    return fill(engine, PORT)


def counted(conn: Connection, query: str) -> dict[str, int]:
    return {row[0]: row[1] for row in conn.execute(text(query))}


def test_it_fills_in_a_day_once_and_its_figures_agree(filled: str, engine: Engine, db_conn: Connection) -> None:
    assert filled.startswith("Demo data: 5,000 jobs of 3 clients, ")
    by_status = counted(db_conn, "SELECT status, count(*) FROM jobs GROUP BY 1")
    assert sum(by_status.values()) == 5000
    assert by_status["cancelled"] == 70 and set(by_status) == {"scheduled", "done", "dead", "cancelled"}
    assert by_status["scheduled"] >= 290 and 80 < by_status["dead"] < 400

    found = {name: len(db_conn.execute(text(query)).all()) for name, query in CONTRADICTIONS.items()}
    assert found == dict.fromkeys(CONTRADICTIONS, 0)
    assert db_conn.scalar(text("SELECT sum(count) FROM minute_stats")) == db_conn.scalar(
        text("SELECT count(*) FROM executions")
    )
    assert db_conn.scalar(text("SELECT max(array_length(start_lag_buckets, 1)) FROM minute_stats")) == BUCKETS

    before = {table: db_conn.scalar(text(f"SELECT count(*) FROM {table}")) for table in TABLES}
    assert fill(engine, PORT) == "The demo data is there already: nothing was added."
    assert {table: db_conn.scalar(text(f"SELECT count(*) FROM {table}")) for table in TABLES} == before


def test_it_has_something_of_everything(filled: str, db_conn: Connection) -> None:
    classes = counted(db_conn, "SELECT coalesce(error_class, ''), count(*) FROM executions GROUP BY 1")
    assert set(classes) == {
        "", "blocked", "connect", "dns", "http_4xx", "http_5xx", "lost", "protocol", "redirect", "timeout", "tls"
    }  # fmt: skip
    groups = db_conn.execute(
        text("SELECT DISTINCT last_error_class, callback_host FROM jobs WHERE status = 'dead'")
    ).all()
    assert len(groups) >= 8
    reasons = counted(db_conn, "SELECT reason, count(*) FROM cron_occurrences WHERE status = 'skipped' GROUP BY 1")
    assert set(reasons) == {"overlap", "missed", "paused", "changed", "error"}
    entries: list[Any] = list(db_conn.execute(text("SELECT * FROM cron_entries")).mappings())
    assert len(entries) == 30
    assert [entry["name"] for entry in entries if entry["paused_at"]] == ["partner-feed"]
    assert [entry["name"] for entry in entries if entry["disabled_reason"]] == ["west-coast-report"]
    assert len({entry["timezone"] for entry in entries}) >= 12
    assert {entry["overlap"] for entry in entries} == {"allow", "skip", "buffer_one", "cancel_previous"}
    assert {entry["catch_up"] for entry in entries} == {"one", "all", "none"}
    hours = counted(
        db_conn,
        "SELECT (extract(epoch FROM punctual_now() - minute) / 3600)::int, sum(count) FROM minute_stats"
        " WHERE minute > punctual_now() - interval '1 day' GROUP BY 1",
    )
    assert len(hours) >= 24 and min(hours[hour] for hour in range(1, 23)) > 20  # type: ignore[index]


def test_every_page_shows_it(filled: str, app: Flask) -> None:
    person = Person(app, "ada", "admin")
    for path, shown in {
        "/": "127.0.0.1:8080",
        "/?period=day": "heartbeat",
        "/jobs/": "heartbeat",
        "/jobs/?status=dead": "legacy.export",
        "/jobs/?status=cancelled": "reminder.email",
        "/dead-letters/": "127.0.0.1:8080",
        "/executions/": "heartbeat",
        "/cron/": "partner-feed",
        "/clients/": "demo-growth",
        "/audit/": "make demo",
    }.items():
        assert shown in person.get(path), path


EACH_ENTRY = "SELECT '/cron/' || id FROM cron_entries ORDER BY id"
ONE_JOB_OF_EACH_SORT = "SELECT '/jobs/' || min(id::text) FROM jobs GROUP BY status, last_error_class"


@pytest.mark.parametrize("paths", [EACH_ENTRY, ONE_JOB_OF_EACH_SORT], ids=["entries", "jobs"])
def test_each_single_page_of_it_answers(filled: str, app: Flask, db_conn: Connection, paths: str) -> None:
    person = Person(app, "ada", "viewer")
    for found in db_conn.execute(text(paths)).scalars():
        person.get(found)


def test_a_database_in_use_gets_nothing(engine: Engine, db_conn: Connection) -> None:
    make_client(db_conn, "acme")
    assert "this database is in use by acme" in fill(engine, PORT)
    assert db_conn.scalar(text("SELECT count(*) FROM jobs")) == 0


def test_a_fill_that_breaks_off_leaves_nothing(
    engine: Engine, db_conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.demo_data.writing.EXECUTION", ("job_id", "no_such_column"))
    with pytest.raises(Exception, match="no_such_column"):
        fill(engine, PORT)
    assert [table for table in TABLES if db_conn.scalar(text(f"SELECT count(*) FROM {table}"))] == []
    monkeypatch.undo()
    assert fill(engine, PORT).startswith("Demo data")


def test_only_the_database_that_it_brings_itself_is_filled(settings: Settings) -> None:
    ours = replace(settings, database_url=None)
    assert refusal(ours) is None
    assert "unset DATABASE_URL" in str(refusal(settings))
    assert "PUNCTUAL_ENV says production" in str(refusal(replace(ours, environment="production")))


@pytest.mark.parametrize(
    ("changes", "said"),
    [({}, "unset DATABASE_URL"), ({"PUNCTUAL_ENV": "production"}, "PUNCTUAL_ENV says production")],
)
def test_the_command_refuses_before_it_starts_anything(
    settings: Settings, tmp_path: Path, changes: dict[str, str], said: str
) -> None:
    given = {"DATABASE_URL": str(settings.database_url), "REDIS_URL": str(settings.redis_url), "SECRET_KEY": "x"}
    environment = child_environment(**{**given, "DATA_DIR": str(tmp_path / "var"), **changes})
    command = [sys.executable, "-m", "flask", "--app", "wsgi", "up", "--demo"]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 1
    assert said in ran.stdout
    assert not (tmp_path / "var").exists()
