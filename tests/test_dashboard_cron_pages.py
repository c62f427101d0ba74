"""The cron pages: they open, show what became of each time, and hostile text on them is text."""

from __future__ import annotations

from datetime import timedelta

from flask import Flask
from sqlalchemy import Connection, text

from tests.factories import make_client, make_entry, now
from tests.pages import HOSTILE, Person, assert_text_only


def test_an_entry_is_listed_with_its_schedule_in_words_and_its_page_tells_why_a_time_was_skipped(
    app: Flask, db_conn: Connection
) -> None:
    entry = make_entry(db_conn, make_client(db_conn), "30 2 * * *", name="nightly")
    db_conn.execute(
        text("""INSERT INTO cron_occurrences (cron_entry_id, nominal_at, status, reason)
                VALUES (:entry, :at, 'skipped', 'overlap')"""),
        {"entry": entry, "at": now(db_conn) - timedelta(days=1)},
    )
    viewer = Person(app, "eve", "viewer")
    listed = viewer.get("/cron/")
    assert "nightly" in listed and "At 02:30 AM" in listed
    page = viewer.get(f"/cron/{entry}")
    assert "skipped" in page and "The last job was running." in page


def test_a_viewer_is_offered_nothing_that_changes_an_entry(app: Flask, db_conn: Connection) -> None:
    entry = make_entry(db_conn, make_client(db_conn), name="nightly")
    for path in ("/cron/", f"/cron/{entry}"):
        assert "Run now" not in Person(app, f"eve{len(path)}", "viewer").get(path)
        assert "Run now" in Person(app, f"bob{len(path)}", "operator").get(path)


def test_hostile_text_is_text_on_the_cron_pages(app: Flask, db_conn: Connection) -> None:
    operator = Person(app, "bob", "operator")
    client = make_client(db_conn)
    entries = [make_entry(db_conn, client, name=hostile, job_type=hostile) for hostile in HOSTILE]
    for path in ("/cron/", "/cron/new", *(f"/cron/{entry}" for entry in entries)):
        assert_text_only(operator.get(path))


def test_an_entry_that_is_not_there_is_a_404(app: Flask) -> None:
    viewer = Person(app, "eve", "viewer")
    for path in ("/cron/999999", "/cron/99999999999999999999999"):
        assert viewer.open(path).status_code == 404
