"""Cron entries in a real browser: made and changed with the next times live, paused with a reason, run now, on a phone, by axe."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect
from sqlalchemy import Connection, text

from tests.factories import make_client, make_entry

pytest_plugins = ("tests.browser_pages",)
SignIn = Callable[..., Page]


@pytest.fixture
def client_id(db_conn: Connection) -> int:
    return make_client(db_conn, "acme")


def serious(page: Page) -> list[str]:
    """What axe finds on the page that keeps people out."""
    found = Axe().run(page).response["violations"]
    return [f"{v['id']}: {v['nodes'][0]['html']}" for v in found if v["impact"] in ("serious", "critical")]


def test_an_entry_is_made_and_changed_with_its_next_times_before_ones_eyes(sign_in: SignIn, client_id: int) -> None:
    page = sign_in()
    page.goto("/cron/")
    page.get_by_role("link", name="New entry").click()
    preview = page.locator("#cron-preview")
    expect(preview).to_contain_text("Type a schedule")
    expect(page.get_by_role("button", name="Show the next times")).to_be_hidden()
    page.get_by_label("Schedule").fill("30 2 * *")
    expect(preview).to_contain_text("Write five fields")
    page.get_by_label("Schedule").press_sequentially(" *")
    expect(preview).to_contain_text("At 02:30 AM")
    page.get_by_label("Time zone").fill("America/New_York")
    expect(preview).to_contain_text("In America/New_York")
    expect(preview).to_contain_text("In Europe/Berlin")
    expect(preview.locator("tbody tr")).to_have_count(10)
    expect(preview.locator("tbody tr").first).to_contain_text(re.compile(r"02:30 -0[45]:00"))
    page.get_by_label("Spread over").fill("600")
    expect(preview).to_contain_text("up to 10 min later")
    page.get_by_label("Name").fill("nightly")
    page.get_by_label("Type", exact=True).fill("report.send")
    page.get_by_label("Callback URL").fill("http://127.0.0.1:9/hook")
    page.get_by_label("Payload").fill('{"a": ]')
    expect(page.locator("#payload-check")).to_contain_text("at line 1")
    page.get_by_label("Payload").fill('{"a": 1}')
    page.get_by_label("Keep one waiting").check()
    page.get_by_role("button", name="Make the entry").click()
    expect(page.get_by_role("heading", name="nightly")).to_be_visible()
    expect(page.locator("#entry")).to_contain_text("At 02:30 AM")
    expect(page.locator("main")).to_contain_text("Keep one waiting")

    page.get_by_role("link", name="Edit").click()
    expect(page.get_by_label("Keep one waiting")).to_be_checked()
    expect(preview).to_contain_text("Runs at")
    page.get_by_label("Schedule").fill("@hourly")
    expect(preview).to_contain_text("Every hour")
    page.get_by_role("button", name="Save the changes").click()
    expect(page.locator("#entry")).to_contain_text("Every hour")


def test_a_pause_asks_for_a_reason_and_a_skipped_time_appears_by_itself(
    sign_in: SignIn, client_id: int, db_conn: Connection
) -> None:
    entry_id = make_entry(db_conn, client_id, name="nightly")
    page = sign_in()
    page.goto(f"/cron/{entry_id}")
    page.get_by_role("button", name="Pause").click()
    page.get_by_label("Why?").fill("the receiver moves")
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator("#entry")).to_contain_text("the receiver moves")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".cron-state .badge-status")).to_have_text("enabled")
    expect(page.locator("#entry")).to_contain_text("The entry was paused.")
    page.evaluate("window.stillHere = true")
    db_conn.execute(
        text(
            "INSERT INTO cron_occurrences (cron_entry_id, nominal_at, status, reason) VALUES (:id, punctual_now(), 'skipped', 'overlap')"
        ),
        {"id": entry_id},
    )
    expect(page.locator("#entry")).to_contain_text("The last job was running.")
    assert page.evaluate("window.stillHere") is True
    page.get_by_role("button", name="Run now").click()
    page.get_by_role("dialog").get_by_role("button", name="Run now").click()
    expect(page.locator("#job")).to_be_visible()


def test_everything_works_without_scripts(sign_in: SignIn, client_id: int, db_conn: Connection) -> None:
    entry_id = make_entry(db_conn, client_id, name="nightly")
    page = sign_in(java_script_enabled=False)
    page.goto(f"/cron/{entry_id}/edit")
    page.get_by_label("Schedule").fill("15 3 * * *")
    page.get_by_role("button", name="Show the next times").click()
    expect(page.locator("#cron-preview")).to_contain_text("At 03:15 AM")
    page.get_by_role("button", name="Save the changes").click()
    expect(page.locator("#entry")).to_contain_text("At 03:15 AM")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator(".cron-state .badge-status")).to_have_text("paused")
    page.get_by_role("link", name="Fill in past times").click()
    page.get_by_label("From").fill("2026-01-01T00:00:00")
    page.get_by_label("To").fill("2026-01-03T12:00:00")
    page.get_by_role("button", name="Count them first").click()
    page.get_by_role("button", name="Make 3 jobs").click()
    expect(page.locator("main")).to_contain_text("3 jobs are on the way.")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_each_page_fits_and_keeps_nobody_out(
    sign_in: SignIn, client_id: int, db_conn: Connection, width: int, scheme: str
) -> None:
    entry_id = make_entry(
        db_conn, client_id, "30 2 */2 * 1", name="a name that goes on " * 6, jitter_seconds=60, offset_ms=30_500,
        timezone="America/Argentina/ComodRivadavia", description="why " * 100,
    )  # fmt: skip
    broken = make_entry(db_conn, client_id, timezone="Mars/Phobos", enabled=False, disabled_reason="Unknown " * 30)
    paused = make_entry(db_conn, client_id, enabled=False, pause_reason="x" * 300)
    db_conn.execute(
        text(
            "INSERT INTO cron_occurrences (cron_entry_id, nominal_at, status, reason, detail, count, through_at) "
            "VALUES (:id, punctual_now(), 'skipped', 'overlap', 'Replaced by the one of 2026-01-01T00:00:00Z.', 900, punctual_now())"
        ),
        {"id": entry_id},
    )
    page = sign_in(viewport={"width": width, "height": 900}, color_scheme=scheme)
    for path in (
        "", f"{entry_id}", f"{broken}", f"{paused}", "new", f"{entry_id}/edit",
        f"{entry_id}/backfill?from=2026-01-01T00:00&to=2026-03-01T00:00",
    ):  # fmt: skip
        page.goto(f"/cron/{path}")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
        assert serious(page) == [], path
