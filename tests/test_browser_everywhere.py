"""What holds on every page in a real browser: the alarm in title and icon, the live mark, a phone's menu, zones, roles, no scripts."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
import redis
from playwright.sync_api import Page, expect
from sqlalchemy import Connection, Engine, text

from tests.factories import Scene, make_worker

pytest_plugins = ("tests.browser_pages",)
SignIn = Callable[..., Page]
PHONE = {"width": 390, "height": 844}


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


def lead(conn: Connection) -> None:
    """A worker and a scheduler that live for an hour; the scheduler leads as long."""
    make_worker(conn, silent_seconds=-3600)
    scheduler = make_worker(conn, kind="scheduler", silent_seconds=-3600)
    conn.execute(
        text("UPDATE leader SET holder = :id, expires_at = punctual_now() + interval '1 hour'"), {"id": scheduler}
    )


def test_title_and_icon_tell_that_something_fails_without_a_reload(scene: Scene, sign_in: SignIn) -> None:
    lead(scene.conn)
    page = sign_in("viewer")
    page.clock.install()
    page.goto("/")
    icon = page.locator("#favicon")
    expect(page).to_have_title("Overview · Punctual")
    expect(icon).to_have_attribute("href", re.compile("favicon-ok"))
    page.evaluate("window.stillHere = true")
    scene.conn.execute(text("UPDATE leader SET holder = NULL"))
    page.clock.run_for(15_000)
    expect(page).to_have_title("(!) Overview · Punctual")
    expect(icon).to_have_attribute("href", re.compile("favicon-failing"))
    expect(page.locator("#overview")).to_contain_text("No scheduler leads")
    lead(scene.conn)
    page.clock.run_for(15_000)
    expect(page).to_have_title("Overview · Punctual")
    expect(icon).to_have_attribute("href", re.compile("favicon-ok"))
    assert page.evaluate("window.stillHere") is True


def test_the_live_mark_stops_and_goes_on(scene: Scene, sign_in: SignIn) -> None:
    page = sign_in("viewer")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "x-fragment" in request.headers else None)
    page.clock.install()
    page.goto("/jobs/")
    mark = page.locator("#live")
    expect(mark).to_have_text("Live")
    mark.click()
    expect(mark).to_have_text("Paused")
    expect(mark).to_have_attribute("aria-pressed", "true")
    asked.clear()
    page.clock.run_for(60_000)
    assert asked == []
    job = scene.job(status="dead", type="new")
    mark.click()
    expect(mark).to_have_text("Live")
    page.clock.run_for(10_000)
    expect(page.locator(f"#job-{job}")).to_be_visible()


def test_a_phones_menu_leads_to_every_page_it_names(scene: Scene, sign_in: SignIn) -> None:
    page = sign_in("admin", viewport=PHONE, has_touch=True, is_mobile=True)
    menu = page.get_by_role("navigation", name="Pages", exact=True)
    expect(menu).to_be_hidden()
    page.get_by_role("button", name="Menu").tap()
    names = menu.get_by_role("link").all_inner_texts()
    assert len(names) >= 10
    for name in names:
        if not menu.is_visible():
            page.get_by_role("button", name="Menu").tap()
        menu.get_by_role("link", name=name.strip(), exact=True).tap()
        expect(menu).to_be_hidden()
        page.get_by_role("button", name="Menu").tap()
        expect(menu.locator("[aria-current=page]")).to_have_text(name.strip())


def test_a_time_is_the_viewers_and_hovering_tells_utc(scene: Scene, sign_in: SignIn) -> None:
    # Summer time: Berlin is two hours ahead.
    run_at = datetime(2036, 7, 1, 22, 30, tzinfo=UTC)
    job = scene.job(status="scheduled", run_at=run_at)
    page = sign_in("viewer")
    page.goto(f"/jobs/{job}")
    shown = page.locator('time[datetime^="2036-07-01T22:30"]').first
    expect(shown).to_have_attribute("title", re.compile(r"2 Jul 2036, 00:30:00 Europe/Berlin.*22:30:00.*UTC"))


def test_a_change_that_is_not_shown_is_refused_too(scene: Scene, sign_in: SignIn) -> None:
    job = scene.job(status="dead")
    page = sign_in("viewer")
    page.goto("/dead-letters/")
    expect(page.get_by_role("button", name=re.compile("Retry|Delete"))).to_have_count(0)
    page.goto(f"/jobs/{job}")
    token = page.locator("[name=csrf_token]").first.get_attribute("value")
    for change in ("retry", "delete"):
        told = page.request.post(f"/jobs/{job}/{change}", form={"csrf_token": token or ""})
        assert told.status == 403, change
        assert "You may not do this" in told.text()
    assert scene.status(job) == "dead"


def test_without_scripts_pages_tell_what_is_and_times_in_utc(scene: Scene, sign_in: SignIn) -> None:
    ran_at = scene.now() - timedelta(days=400)
    job = scene.job(status="dead", type="invoice.render", run_at=ran_at, last_error="It said no.")
    page = sign_in("viewer", java_script_enabled=False)
    expect(page.locator(".stat", has_text="Dead letters")).to_contain_text("1")
    expect(page.locator("#overview")).to_contain_text("No scheduler leads")
    expect(page).to_have_title(re.compile(r"^\(!\) Overview"))
    page.goto("/jobs/")
    page.get_by_role("link", name="invoice.render").click()
    expect(page.locator("main")).to_contain_text("It said no.")
    expect(page.locator(f'time[datetime^="{ran_at:%Y-%m-%dT%H:%M}"]').first).to_have_attribute(
        "title", re.compile(f"{ran_at:%H:%M:%S} UTC")
    )
    page.get_by_role("button", name=re.compile("dark", re.IGNORECASE)).click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page).to_have_url(re.compile(str(job)))
    expect(page.locator("#live")).to_be_hidden()
