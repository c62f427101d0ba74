"""Acting on cron entries from their pages: pausing, running now, filling in, deleting, searching, and who may."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from flask import Flask
from sqlalchemy import Connection, text

from tests.factories import make_client, make_entry, now
from tests.pages import HOSTILE, Person, assert_text_only
from tests.test_dashboard_cron_form import location, made, values


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


def test_a_pause_with_its_reason_and_back(bob: Person, client_id: int, entry: Callable[[], Any]) -> None:
    address = made(bob, client_id)
    assert location(bob.post(f"{address}/pause", reason="the receiver moves", next="/cron/")) == "/cron/"
    assert (entry().enabled, entry().pause_reason, entry().paused_by) == (False, "the receiver moves", "bob")
    assert "the receiver moves" in bob.get(address) and "the receiver moves" in bob.get("/cron/?state=paused")
    assert location(bob.post(f"{address}/resume", next="//evil.example/")) == address
    assert entry().enabled


def test_an_entry_an_error_disabled_stands_out_and_cannot_be_enabled_as_it_is(
    bob: Person, client_id: int, db_conn: Connection, entry: Callable[[], Any]
) -> None:
    address = made(bob, client_id)
    db_conn.execute(
        text(
            "UPDATE cron_entries SET timezone = 'Mars/Phobos', enabled = false, next_run_at = NULL, disabled_reason = 'No zone.'"
        )
    )
    assert "An error has disabled it" in bob.get(address) and "No zone." in bob.get("/cron/?state=disabled")
    bob.post(f"{address}/resume")
    assert "Mars/Phobos" in " ".join(bob.told()) and not entry().enabled
    fields = values(bob.get(f"{address}/edit"))
    location(bob.post(f"{address}/edit", **{**fields, "timezone": "UTC"}))
    assert entry().enabled and entry().disabled_reason is None


def test_run_now_leads_to_its_job(bob: Person, client_id: int, db_conn: Connection, entry: Callable[[], Any]) -> None:
    address = made(bob, client_id)
    before = entry().next_run_at
    job_id = location(bob.post(f"{address}/trigger")).rpartition("/")[2]
    assert db_conn.execute(text("SELECT id::text FROM jobs")).scalar_one() == job_id
    assert (str(entry().last_job_id), entry().next_run_at) == (job_id, before)


def test_deleting_keeps_the_jobs(bob: Person, client_id: int, db_conn: Connection, entry: Callable[[], Any]) -> None:
    address = made(bob, client_id)
    bob.post(f"{address}/trigger")
    assert location(bob.post(f"{address}/delete")) == "/cron/"
    assert entry() is None and db_conn.execute(text("SELECT count(*) FROM jobs")).scalar_one() == 1


class TestBackfill:
    def span(self, conn: Connection, minutes: int) -> dict[str, str]:
        last = now(conn).replace(second=0, microsecond=0, tzinfo=None)
        return {"from": f"{last - timedelta(minutes=minutes - 1):%Y-%m-%dT%H:%M}", "to": f"{last:%Y-%m-%dT%H:%M}"}

    def test_it_counts_first_and_asks(self, bob: Person, client_id: int, db_conn: Connection) -> None:
        address = f"/cron/{make_entry(db_conn, client_id)}"
        span = self.span(db_conn, 12)
        asked = bob.get(f"{address}/backfill?{urlencode(span)}")
        assert "<strong>12 jobs</strong>" in asked and "Make 12 jobs" in asked
        assert db_conn.execute(text("SELECT count(*) FROM jobs")).scalar_one() == 0
        assert location(bob.post(f"{address}/backfill", **span)) == address
        assert bob.told() == ["12 jobs are on the way."]
        assert db_conn.execute(text("SELECT count(*) FROM jobs")).scalar_one() == 12
        assert "nothing to fill in" in bob.get(f"{address}/backfill?{urlencode(span)}")

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"from": "2026-01-01T00:00"}, "both times"),
            ({"from": "x", "to": "y"}, "Give a day"),
            ({"from": "2026-01-02T00:00", "to": "2026-01-01T00:00"}, "must not be later"),
            ({"from": "2026-01-01T00:00", "to": "2999-01-01T00:00"}, "future"),
            ({"from": "2026-01-01T00:00", "to": "2026-01-20T00:00"}, "ask in parts"),
        ],
    )
    def test_a_span_that_cannot_be_is_told(
        self, bob: Person, client_id: int, db_conn: Connection, given: dict[str, str], words: str
    ) -> None:
        address = f"/cron/{make_entry(db_conn, client_id)}/backfill"
        assert words in html.unescape(bob.get(f"{address}?{urlencode(given)}", 422))
        assert bob.post(address, **given).status_code == 422
        assert db_conn.execute(text("SELECT count(*) FROM jobs")).scalar_one() == 0


def test_the_list_is_searched_and_filtered(bob: Person, client_id: int, db_conn: Connection) -> None:
    other = make_client(db_conn, "others")
    make_entry(db_conn, client_id, name="100% sure")
    make_entry(db_conn, other, name="nightly")
    make_entry(db_conn, client_id, name="ended", next_run_at=None)

    def names(query: str) -> list[str]:
        rows = re.findall(r'class="entry-link"[^>]*><bdi[^>]*>([^<]*)<', bob.get(f"/cron/?{query}"))
        return [html.unescape(name) for name in rows]

    assert names("") == ["ended", "nightly", "100% sure"]
    assert names("q=NIGHT") == ["nightly"] and names("q=0%25") == ["100% sure"] and names("q=_") == []
    assert names(f"client={other}") == ["nightly"]
    assert (names("state=ended"), names("state=enabled")) == (["ended"], ["nightly", "100% sure"])
    assert names("q=%00") == names("state=x&client=y&before=z") == names("")


def test_long_lists_are_paged(
    bob: Person, client_id: int, db_conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.dashboard.cron.PAGE", 2)
    monkeypatch.setattr("app.dashboard.cron.OCCURRENCES", 2)
    ids = [make_entry(db_conn, client_id) for _ in range(5)]
    seen: list[str] = []
    following: str | None = "/cron/"
    while following:
        page = bob.get(following)
        seen += re.findall(r'<tr id="entry-(\d+)"', page)
        link = re.search(r'href="([^"]+)" rel="next"', page)
        following = html.unescape(link[1]) if link else None
    assert seen == [str(entry_id) for entry_id in reversed(ids)]
    first = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
    for day in range(3):
        db_conn.execute(
            text(
                "INSERT INTO cron_occurrences (cron_entry_id, nominal_at, status, reason, count, through_at) VALUES (:id, :at, 'skipped', 'missed', 3, :at)"
            ),
            {"id": ids[0], "at": first + timedelta(days=day)},
        )
    page = bob.get(f"/cron/{ids[0]}")
    assert len(re.findall(r'data-key="at-', page)) == 2 and "and 2 more until" in page
    older = re.search(r'href="([^"]+)" rel="next"', page)
    assert older is not None
    assert re.findall(r'data-key="at-([^"]+)"', bob.get(html.unescape(older[1]))) == ["2026-01-01T00:00:00Z"]


def test_a_viewer_sees_and_cannot_act(
    app: Flask, client_id: int, db_conn: Connection, entry: Callable[[], Any]
) -> None:
    vic = Person(app, "vic", "viewer")
    address = f"/cron/{make_entry(db_conn, client_id)}"
    before = entry()
    for path in ("/cron/new", f"{address}/edit", f"{address}/backfill"):
        assert vic.open(path).status_code == 403
    for action in ("trigger", "pause", "resume", "delete", "edit", "backfill"):
        assert vic.post(f"{address}/{action}").status_code == 403
    assert entry() == before
    page = vic.get(address)
    for words in ("Edit", "Delete", "Fill in", "Pause"):
        assert f"{words}</" not in page


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_words_stay_words(bob: Person, client_id: int, db_conn: Connection, hostile: str) -> None:
    entry_id = make_entry(
        db_conn, client_id, name=hostile, description=hostile, job_type=hostile, payload=hostile, timezone=hostile[:64],
        callback_url=hostile, enabled=False, disabled_reason=hostile,
    )  # fmt: skip
    db_conn.execute(
        text(
            "INSERT INTO cron_occurrences (cron_entry_id, nominal_at, status, reason, detail) VALUES (:id, punctual_now(), 'skipped', 'paused', :words)"
        ),
        {"id": entry_id, "words": hostile},
    )
    asked = urlencode({"cron_expression": hostile, "timezone": hostile, "starts_at": hostile})
    for path in (
        "/cron/", f"/cron/?{urlencode({'q': hostile})}", f"/cron/{entry_id}", f"/cron/{entry_id}/edit", f"/cron/preview?{asked}",
        f"/cron/{entry_id}/backfill",
    ):  # fmt: skip
        # A field holds what is edited as it is, and keeps it to itself.
        assert_text_only(re.sub(r"<input[^>]*>|<textarea.*?</textarea>", "", bob.get(path), flags=re.DOTALL))
