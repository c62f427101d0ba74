"""Queues in a real browser: live, purged by their name while the page refreshes itself, on a phone, by axe."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from sqlalchemy import Connection, text

from tests.factories import make_client, make_job, make_queue, now
from tests.test_browser_cron import SignIn, serious

pytest_plugins = ("tests.browser_pages",)


@pytest.fixture
def queue_id(db_conn: Connection) -> int:
    client = make_client(db_conn, "acme")
    queue_id = make_queue(db_conn, client, "mail", concurrency=4, rate_limit=10, rate_period_seconds=60)
    paused = {"paused_at": now(db_conn), "pause_reason": "moving " * 40, "paused_by": "ada"}
    make_queue(db_conn, client, "a-name-without-a-place-to-break-it-" + "x" * 29, **paused)
    make_job(db_conn, client, "pending", queue_id=queue_id)
    return queue_id


def test_the_page_lives_and_what_is_being_typed_stays(sign_in: SignIn, db_conn: Connection, queue_id: int) -> None:
    page = sign_in()
    page.goto("/queues/?q=mail")
    row = page.locator(f"#queue-{queue_id}")
    row.get_by_role("button", name="Purge").click()
    page.get_by_label("Type the queue's name").fill("mai")
    db_conn.execute(text("UPDATE queues SET concurrency = 77 WHERE id = :id"), {"id": queue_id})
    expect(row).to_contain_text("of 77", timeout=10_000)
    expect(page.get_by_label("Type the queue's name")).to_have_value("mai")
    page.get_by_label("Type the queue's name").press_sequentially("l")
    page.get_by_role("button", name="Cancel these jobs").click()
    expect(page.locator("#flashes")).to_contain_text("1 job is cancelled.")
    assert page.url.endswith("/queues/?q=mail")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_axe_finds_nothing_serious_and_nothing_sticks_out(
    sign_in: SignIn, queue_id: int, scheme: str, width: int
) -> None:
    page = sign_in(color_scheme=scheme, viewport={"width": width, "height": 900})
    for path in ("/queues/", f"/queues/{queue_id}/edit", "/jobs/new"):
        page.goto(path)
        for fold in page.locator("details.folded > summary").all():
            fold.click()
        assert serious(page) == [], path
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), path
