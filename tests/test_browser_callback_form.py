"""A call in a real browser: described, tried, submitted and seen as it was sent; a dead job edited and retried until it is done."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import redis
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect
from sqlalchemy import Connection, Engine, text

from app.demo_receiver import DemoReceiver
from app.signing import new_secret
from tests.factories import Scene
from tests.processes import Processes

pytest_plugins = ("tests.browser_pages",)
SignIn = Callable[..., Page]


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    scene = Scene.on(engine, redis_client, db_conn)
    # One that a worker can sign with.
    db_conn.execute(text("UPDATE clients SET signing_secret = :secret"), {"secret": new_secret()})
    return scene


def unfold(page: Page, *titles: str) -> None:
    for title in titles:
        page.locator("summary", has_text=title).click()


def test_a_get_with_headers_and_listed_waits_is_tried_submitted_and_seen_as_it_was_sent(
    scene: Scene, sign_in: SignIn, processes: Processes, receiver: DemoReceiver
) -> None:
    processes.worker()
    processes.scheduler()
    page = sign_in()
    page.goto("/jobs/new")
    expect(page.get_by_label("Text to send")).to_be_hidden()
    page.get_by_label("Type", exact=True).fill("report.fetch")
    page.get_by_label("Callback URL").fill(f"{receiver.url}/hook?day=1")
    page.get_by_label("Method").select_option("GET")
    expect(page.get_by_label("None", exact=True)).to_be_checked()
    expect(page.get_by_label("Payload")).to_be_hidden()
    expect(page.get_by_label("Headers", exact=True)).to_be_hidden()
    unfold(page, "Headers", "Retry policy")
    page.get_by_label("Headers", exact=True).fill("X-Tenant: 7\nAuthorization: Bearer s3")

    delays = page.locator("#planned-delays")
    expect(delays).to_contain_text("1 s, 2 s, 4 s, 8 s")
    page.get_by_label("Waits between attempts").select_option("list")
    expect(page.get_by_label("First wait")).to_be_hidden()
    expect(delays).to_contain_text("Give each wait")
    page.get_by_label("The waits").fill("5 s, 1 min")
    expect(delays).to_contain_text("5 s, 1 min, 1 min, 1 min: 3 min 05 s in all")
    page.get_by_label("Give up after").fill("2 min")
    expect(delays).to_contain_text("It gives up after attempt 3")
    page.get_by_label("Attempts at most").fill("2")
    expect(delays).to_contain_text("Retries wait 5 s: 5 s in all")

    page.get_by_role("button", name="Test callback").click()
    tested = page.locator("#callback-test")
    expect(tested).to_contain_text("HTTP 200")
    expect(tested.get_by_role("img", name=re.compile("Where the time went"))).to_be_visible()
    expect(tested.get_by_role("button", name="Copy")).to_be_visible()
    expect(page.get_by_label("Type", exact=True)).to_have_value("report.fetch")
    page.get_by_label("Headers", exact=True).fill("Host: elsewhere")
    page.get_by_role("button", name="Test callback").click()
    expect(tested).to_contain_text("Headers: They must leave out Host")
    page.get_by_label("Headers", exact=True).fill("X-Tenant: 7\nAuthorization: Bearer s3")
    assert scene.count("jobs") == 0 and len(receiver.record.newest_first()) == 1

    page.get_by_role("button", name="Submit the job").click()
    expect(page.locator("#job")).to_have_attribute("data-status", "done", timeout=30_000)
    page.locator("#attempt summary", has_text="Request").click()
    request = page.locator("#attempt details[data-key=request]")
    expect(request).to_contain_text("GET /hook?day=1 HTTP/1.1")
    expect(request).to_contain_text("X-Tenant: 7")
    expect(request).to_contain_text("no body")
    expect(page.locator("#facts")).to_contain_text("Waits of 5 s, 1 min")
    expect(page.locator("main")).not_to_contain_text("s3")
    newest = receiver.record.newest_first()[0]
    assert (newest.method, newest.body, newest.header("Authorization")) == ("GET", b"", "Bearer s3")


def test_a_dead_job_is_edited_and_retried_until_it_is_done(
    scene: Scene, sign_in: SignIn, processes: Processes, receiver: DemoReceiver
) -> None:
    processes.worker()
    processes.scheduler()
    page = sign_in()
    page.goto("/jobs/new")
    page.get_by_label("Type", exact=True).fill("invoice.render")
    page.get_by_label("Callback URL").fill(f"{receiver.url}/hook-fail")
    page.get_by_label("Attempts at most").fill("1")
    page.get_by_label("Text", exact=True).check()
    page.get_by_label("Content-Type").fill("application/xml")
    page.get_by_label("Text to send").fill("<wrong/>")
    page.get_by_role("button", name="Submit the job").click()
    expect(page.locator("#job")).to_have_attribute("data-status", "dead", timeout=30_000)
    page.get_by_role("link", name="Edit and retry").click()
    expect(page.locator("main")).to_contain_text("The receiver answered 500")
    expect(page.get_by_label("Text to send")).to_have_value("<wrong/>")
    page.get_by_label("Callback URL").fill(f"{receiver.url}/hook")
    page.get_by_label("Text to send").fill("<right/>\n")
    page.get_by_role("button", name="Save and retry").click()
    expect(page.locator("#job")).to_have_attribute("data-status", "done", timeout=30_000)
    newest, first = receiver.record.newest_first()
    assert (newest.body, newest.header("Content-Type")) == (b"<right/>\n", "application/xml")
    assert first.body == b"<wrong/>" and first.job_id == newest.job_id
    page.locator(".timeline a.attempt").last.click()
    page.locator("#attempt summary", has_text="Request").click()
    expect(page.locator("#attempt")).to_contain_text("POST /hook-fail HTTP/1.1")
    expect(page.locator("#attempt")).to_contain_text("<wrong/>")


def test_a_test_works_without_scripts(scene: Scene, sign_in: SignIn, receiver: DemoReceiver) -> None:
    page = sign_in(java_script_enabled=False)
    page.goto("/cron/new")
    page.get_by_label("Schedule").fill("@daily")
    page.get_by_label("Callback URL").fill(f"{receiver.url}/hook-fail")
    page.get_by_role("button", name="Test callback").click()
    expect(page.locator("#callback-test")).to_contain_text("HTTP 500")
    expect(page.get_by_label("Schedule")).to_have_value("@daily")
    assert page.url.endswith("#callback-test") and scene.count("cron_entries") == 0


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_each_form_fits_and_keeps_nobody_out(
    scene: Scene, sign_in: SignIn, receiver: DemoReceiver, width: int, scheme: str
) -> None:
    long = "x" * 200
    columns = {
        "callback_url": f"{receiver.url}/hook-fail?{long}", "headers": f'[["X-{long[:100]}","{long}"],["X-Token","s3"]]',
        "payload": long, "content_type": "text/plain", "on_failure_url": f"http://127.0.0.1:9/{long}", "method": "PUT",
        "retry": '{"backoff":"list","delays":[1.0,60.0],"jitter":"none"}',
    }  # fmt: skip
    job, entry = scene.job("dead", **columns), scene.entry("@daily", **columns)
    page = sign_in(viewport={"width": width, "height": 900}, color_scheme=scheme)
    for path in (
        "/jobs/new",
        f"/jobs/new?from={job}",
        f"/jobs/{job}/edit",
        f"/jobs/{job}",
        f"/cron/{entry}/edit",
        f"/cron/{entry}",
    ):
        page.goto(path)
        if "edit" in path:
            page.get_by_role("button", name="Test callback").click()
            expect(page.locator("#callback-test")).to_contain_text("HTTP 500")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
        found = Axe().run(page).response["violations"]
        assert [f"{v['id']}: {v['nodes'][0]['html']}" for v in found if v["impact"] in ("serious", "critical")] == [], (
            path
        )
