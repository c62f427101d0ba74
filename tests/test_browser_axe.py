"""Every page of the dashboard in a real browser, with a day of data: axe finds nothing serious, and a phone scrolls one way only."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from flask import Flask
from playwright.sync_api import Page, expect
from sqlalchemy import Connection, Engine, text

from app.demo_data.filling import fill

pytest_plugins = ("tests.browser_pages",)
SignIn = Callable[..., Page]

# Parts of pages, and a file.
NO_PAGES = {"cron.preview", "jobs.payload", "jobs.planned_delays", "live.health", "jobs.bulk"}
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 900}
SIDEWAYS = "document.scrollingElement.scrollWidth > document.scrollingElement.clientWidth"


def addresses(app: Flask, conn: Connection) -> dict[str, str]:
    """The address of one page of each kind."""
    job = conn.execute(text("SELECT id FROM jobs WHERE status = 'dead' ORDER BY id LIMIT 1")).scalar_one()
    entry = conn.execute(text("SELECT id FROM cron_entries ORDER BY id LIMIT 1")).scalar_one()
    queue = conn.execute(text("SELECT min(id) FROM queues")).scalar_one()
    change = conn.execute(
        text(
            "INSERT INTO bulk_operations (action, filter, through_id, matched, actor_kind, actor)"
            " VALUES ('retry', '{}', :job, 10, 'user', 'ada') RETURNING id"
        ),
        {"job": job},
    ).scalar_one()
    named = {
        "<int:operation_id>": str(change),
        "<uuid:job_id>": str(job),
        "<int:entry_id>": str(entry),
        "<int:queue_id>": str(queue),
    }
    found = {}
    for rule in app.url_map.iter_rules():
        endpoint = rule.endpoint.removeprefix("dashboard.")
        if rule.endpoint != endpoint and "GET" in (rule.methods or ()) and endpoint not in NO_PAGES:
            address = rule.rule
            for argument, value in named.items():
                address = address.replace(argument, value)
            assert "<" not in address, f"give {rule.rule} an example in this test"
            found[endpoint] = address
    return found


@pytest.mark.parametrize(("scheme", "viewport"), [("light", DESK), ("dark", PHONE)])
def test_no_page_keeps_anybody_out(
    app: Flask, engine: Engine, db_conn: Connection, sign_in: SignIn, scheme: str, viewport: dict[str, int]
) -> None:
    fill(engine, 8080)
    db_conn.execute(text("INSERT INTO queues (client_id, name, concurrency) SELECT id, 'narrow', 3 FROM clients"))
    page = sign_in("admin", color_scheme=scheme, viewport=viewport)
    wrong: list[str] = []
    pages = addresses(app, db_conn)
    assert len(pages) >= 15
    for endpoint, address in pages.items():
        page.goto(address)
        violations = Axe().run(page).response["violations"]
        wrong += [
            f"{endpoint}: {v['id']}: {v['nodes'][0]['html'][:200]}"
            for v in violations
            if v["impact"] in ("serious", "critical")
        ]
        if page.evaluate(SIDEWAYS):
            wrong.append(f"{endpoint} scrolls sideways")
    assert wrong == []


def test_a_theme_that_was_chosen_is_kept(sign_in: SignIn) -> None:
    page = sign_in("viewer", color_scheme="light")
    root = page.locator("html")
    expect(root).to_have_attribute("data-theme", "auto")
    expect(root).to_have_attribute("data-bs-theme", "light")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name=re.compile("dark", re.IGNORECASE)).click()
    expect(root).to_have_attribute("data-bs-theme", "dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != background
    page.goto("/jobs/")
    expect(root).to_have_attribute("data-theme", "dark")
    page.emulate_media(color_scheme="dark")
    page.get_by_role("button", name=re.compile("system|auto", re.IGNORECASE)).click()
    expect(root).to_have_attribute("data-bs-theme", "dark")


def test_the_keyboard_finds_the_search(sign_in: SignIn) -> None:
    page = sign_in("viewer")
    page.goto("/jobs/")
    page.keyboard.press("/")
    expect(page.locator(":focus")).to_have_attribute("type", "search")
    page.keyboard.type("nothing like it")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("nothing"))


def test_times_are_the_viewers_with_utc_beside(engine: Engine, sign_in: SignIn) -> None:
    fill(engine, 8080)
    page = sign_in("viewer")
    page.goto("/executions/")
    shown = page.locator("time").first
    expect(shown).to_have_attribute("title", re.compile("UTC"))
    expect(page.locator("body")).to_contain_text("Europe/Berlin")
