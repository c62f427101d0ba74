"""The form of a cron entry: making, changing, duplicating, and the next times beside it."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from flask import Flask
from sqlalchemy import Connection, text
from werkzeug.test import TestResponse

from tests.factories import make_client
from tests.forms import values
from tests.pages import Person

FORM = {
    "cron_expression": "30 2 * * *",
    "timezone": "Europe/Berlin",
    "type": "report.send",
    "callback_url": "http://127.0.0.1:9/hook",
    "payload": '{"n":  12345678901234567890}',
    "max_attempts": "7",
    "overlap": "buffer_one",
    "catch_up": "all",
    "window": "2",
    "window_unit": "days",
    "jitter_seconds": "60",
    "name": "nightly",
    "description": "line one\r\nline two",
    "starts_at": "2030-01-01T00:00",
    "ends_at": "",
}


@pytest.fixture
def bob(app: Flask) -> Person:
    return Person(app, "bob", "operator")


@pytest.fixture
def client_id(db_conn: Connection) -> int:
    return make_client(db_conn, "acme")


@pytest.fixture
def entry(db_conn: Connection, client_id: int) -> Callable[[], Any]:
    """Reads the one entry there is."""
    return lambda: db_conn.execute(text("SELECT * FROM cron_entries")).one_or_none()


def location(answer: TestResponse) -> str:
    assert answer.status_code == 302, answer.text[:3000]
    return answer.headers["Location"]


def errors(answer: TestResponse) -> str:
    """What the summary on top of a refused form says."""
    assert answer.status_code == 422, answer.text[:2000]
    found = re.search(r'class="error-list">(.*?)</ul>', answer.text, re.DOTALL)
    assert found is not None
    return html.unescape(re.sub(r"<[^>]+>", "", found.group(1)))


def made(bob: Person, client_id: int, **fields: str) -> str:
    return location(bob.post("/cron/new", **{**FORM, "client": str(client_id), **fields}))


def test_the_form_makes_an_entry_of_all_its_fields(bob: Person, client_id: int, entry: Callable[[], Any]) -> None:
    address = made(bob, client_id)
    one = entry()
    assert address == f"/cron/{one.id}"
    assert (one.client_id, one.name, one.description) == (client_id, "nightly", "line one\nline two")
    assert (one.expression, one.timezone, one.job_type, one.max_attempts) == (
        "30 2 * * *", "Europe/Berlin", "report.send", 7,
    )  # fmt: skip
    assert one.payload == '{"n":  12345678901234567890}'
    assert (one.overlap, one.catch_up, one.catch_up_window_seconds) == ("buffer_one", "all", 2 * 86_400)
    assert one.starts_at.isoformat() == "2029-12-31T23:00:00+00:00" and one.ends_at is None
    assert one.next_run_at.isoformat() == "2030-01-01T01:30:00+00:00"
    page = bob.get(address)
    assert "At 02:30 AM" in page and "Keep one waiting" in page and "Run all, 2 d back" in page
    assert "12345678901234567890" in page


def test_a_form_sent_back_as_it_was_changes_nothing(
    bob: Person, client_id: int, db_conn: Connection, entry: Callable[[], Any]
) -> None:
    address = made(bob, client_id)
    # More than a field can show: a fraction of a second, a raw CRLF in the payload.
    db_conn.execute(
        text("UPDATE cron_entries SET starts_at = starts_at + interval '1.5 seconds', payload = E'{\\r\\n}'")
    )
    before = entry()
    assert location(bob.post(f"{address}/edit", **values(bob.get(f"{address}/edit")))) == address
    assert entry() == before


def test_a_change_is_made_and_leaves_the_rest(bob: Person, client_id: int, entry: Callable[[], Any]) -> None:
    address = made(bob, client_id)
    before = entry()
    fields = values(bob.get(f"{address}/edit"))
    location(bob.post(f"{address}/edit", **{**fields, "overlap": "allow", "name": ""}))
    after = entry()
    assert (after.overlap, after.name, after.next_run_at) == ("allow", None, before.next_run_at)
    assert (after.payload, after.starts_at) == (before.payload, before.starts_at)
    location(bob.post(f"{address}/edit", **{**fields, "cron_expression": "0 4 * * *", "starts_at": ""}))
    assert entry().next_run_at < before.next_run_at and entry().starts_at is None


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("cron_expression", "61 * * * *", "from 0 to 59"),
        ("cron_expression", "", "Say when"),
        ("timezone", "Mars/Phobos", "Mars/Phobos"),
        ("type", "", "what kind of job"),
        ("type", "a\nb", "control characters"),
        ("callback_url", "ftp://x/", "Callback URL"),
        ("callback_url", "http://169.254.169.254/", "Callback URL"),
        ("payload", '{"a": }', "line 1"),
        ("payload", "", "any JSON value"),
        ("max_attempts", "101", "100"),
        ("max_attempts", "many", "whole number"),
        ("overlap", "never", "must be one of"),
        ("catch_up", "two", "must be one of"),
        ("window", "-1", "whole number"),
        ("window", "999999", "31536000"),
        ("jitter_seconds", "86401", "86400"),
        ("name", "x" * 129, "128"),
        ("description", "\x00", "Description"),
        ("starts_at", "tomorrow", "2026-12-01 10:00"),
        ("starts_at", "2027-03-28T02:30", "skip this time"),
        ("ends_at", "2029-01-01T00:00", "later than starts_at"),
        ("client", "999999", "Choose whose"),
    ],
)
def test_what_cannot_be_is_refused_at_its_field(
    bob: Person, client_id: int, entry: Callable[[], Any], field: str, value: str, words: str
) -> None:
    answer = bob.post("/cron/new", **{**FORM, "client": str(client_id), field: value})
    assert words in errors(answer)
    assert entry() is None
    # What was typed is still there.
    assert "report.send" in answer.text or field == "type"


def test_a_name_that_is_taken_is_refused_at_its_field(bob: Person, client_id: int) -> None:
    made(bob, client_id)
    assert "has this name" in errors(bob.post("/cron/new", **{**FORM, "client": str(client_id)}))


def test_a_duplicate_starts_from_the_entry_without_its_name(bob: Person, client_id: int) -> None:
    number = made(bob, client_id).rpartition("/")[2]
    fields = values(bob.get(f"/cron/new?from={number}"))
    assert (fields["cron_expression"], fields["payload"]) == ("30 2 * * *", FORM["payload"])
    assert fields.get("name", "") == ""


class TestPreview:
    def ask(self, person: Person, **fields: str) -> str:
        return html.unescape(person.fragment(f"/cron/preview?{urlencode(fields)}"))

    def test_ten_times_in_the_entrys_zone_and_the_viewers(self, bob: Person) -> None:
        bob.client.set_cookie("punctual_tz", "Asia/Tokyo")
        shown = self.ask(bob, cron_expression="30 2 * * *", timezone="Europe/Berlin", starts_at="2030-01-01T00:00")
        assert "At 02:30 AM" in shown and "In Europe/Berlin" in shown and "In Asia/Tokyo" in shown
        assert "Tue 1 Jan 2030, 02:30 +01:00" in shown and "1 Jan 2030, 10:30:00" in shown
        assert len(re.findall(r"02:30 \+01:00", shown)) == 10

    def test_an_end_ends_the_times(self, bob: Person) -> None:
        bounds = {"starts_at": "2030-01-01T00:00", "ends_at": "2030-01-02T23:00"}
        shown = self.ask(bob, cron_expression="@daily", **bounds)
        assert len(re.findall(r"00:00 \+00:00", shown)) == 2 and "Then it has ended" in shown

    def test_the_actual_time_where_it_is_known(
        self, bob: Person, client_id: int, db_conn: Connection, entry: Callable[[], Any]
    ) -> None:
        made(bob, client_id)
        shown = self.ask(bob, cron_expression="0 0 * * *", jitter_seconds="60", entry=str(entry().id))
        assert "Runs at" in shown
        seconds = entry().offset_ms // 1000
        assert f"00:00:{seconds:02}<" in shown
        assert "up to 1 min later" in self.ask(bob, cron_expression="0 0 * * *", jitter_seconds="60").replace(
            " 00 s", ""
        )

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"cron_expression": "61 * * * *"}, "cannot read"),
            ({"cron_expression": "0 0 31 2 *"}, "never comes"),
            ({"cron_expression": "* * * * *", "timezone": "Mars/Phobos"}, "Unknown time zone"),
            ({"cron_expression": "* * * * *", "starts_at": "soon"}, "Give a day"),
            ({"cron_expression": "* * * * *", "ends_at": "2020-01-01T00:00"}, "No time is left"),
            ({"cron_expression": "* * * * *", "jitter_seconds": "x"}, "whole number"),
            ({"cron_expression": "* * * * *", "jitter_seconds": "999999"}, "86,400"),
            ({"cron_expression": ""}, "Type a schedule"),
        ],
    )
    def test_the_error_while_typing(self, app: Flask, fields: dict[str, str], words: str) -> None:
        assert words in self.ask(Person(app, "vic", "viewer"), **fields)

    def test_a_button_shows_it_without_a_script_and_saves_nothing(
        self, bob: Person, client_id: int, entry: Callable[[], Any]
    ) -> None:
        answer = bob.post("/cron/new", **FORM, client=str(client_id), preview="1")
        assert answer.status_code == 200 and "02:30 +01:00" in html.unescape(answer.text)
        assert entry() is None
