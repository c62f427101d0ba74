"""Jobs in a real browser: submitted and watched until done, looked into, retried singly and in bulk, on a phone, without scripts."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import redis
from playwright.sync_api import Page, expect
from sqlalchemy import Connection, Engine, text

from app.api.strict_json import NotStrictJson, parse
from app.demo_receiver import DemoReceiver
from app.ids import uuid7
from app.signing import new_secret
from tests.eventually import eventually
from tests.factories import Scene, make_client, make_job
from tests.pages import HOSTILE
from tests.processes import Processes
from tests.test_dashboard_agreement import PAYLOADS

pytest_plugins = ("tests.browser_pages",)
SignIn = Callable[..., Page]


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    scene = Scene.on(engine, redis_client, db_conn)
    # One that a worker can sign with.
    db_conn.execute(text("UPDATE clients SET signing_secret = :secret"), {"secret": new_secret()})
    return scene


def mark(page: Page) -> None:
    """Leaves a sign in the page that is gone once it is loaded anew."""
    page.evaluate("window.stillHere = true")


def is_marked(page: Page) -> bool:
    return page.evaluate("window.stillHere === true") is True


def test_a_job_is_submitted_and_becomes_done_before_ones_eyes(
    scene: Scene, sign_in: SignIn, processes: Processes, receiver: DemoReceiver
) -> None:
    processes.worker()
    processes.scheduler()
    page = sign_in()
    page.goto("/jobs/")
    page.get_by_role("link", name="Submit a job").first.click()
    page.get_by_label("Type", exact=True).fill("email.send")
    page.get_by_label("Callback URL").fill(f"{receiver.url}/hook")
    page.get_by_label("Payload").fill('{"id": 9007199254740993,\n "to": }')
    expect(page.locator("#payload-check")).to_have_text(re.compile("at line 2, column 8"))
    page.get_by_label("Payload").fill('{"id": 9007199254740993}')
    expect(page.locator("#payload-check")).to_have_text("This is JSON.")
    page.get_by_label("How long from now").fill("2")
    page.get_by_label("Unit").select_option("seconds")
    page.get_by_role("button", name="Submit the job").click()
    expect(page.locator("#job")).to_have_attribute("data-status", re.compile("scheduled|pending|running"))
    mark(page)
    expect(page.locator("#job")).to_have_attribute("data-status", "done", timeout=30_000)
    expect(page.locator("#attempt")).to_contain_text("Attempt 1")
    expect(page.locator("#attempt")).to_contain_text("HTTP 200")
    assert is_marked(page), "the page was not loaded again"
    expect(page.locator("main")).to_contain_text("9007199254740993")
    (arrival,) = receiver.record.newest_first()
    assert (
        b"9007199254740993" in arrival.body if isinstance(arrival.body, bytes) else "9007199254740993" in arrival.body
    )


def test_a_dead_letter_is_retried_and_delivered(
    scene: Scene, sign_in: SignIn, processes: Processes, receiver: DemoReceiver
) -> None:
    job = scene.job(
        status="dead",
        type="invoice.render",
        callback_url=f"{receiver.url}/hook",
        callback_host=f"http://127.0.0.1:{receiver.port}",
        last_error="The receiver answered 500 Internal Server Error.",
        last_error_class="http_5xx",
    )
    processes.worker()
    processes.scheduler()
    page = sign_in()
    page.goto("/dead-letters/")
    expect(page.locator("#groups")).to_contain_text("answered 5xx")
    page.get_by_role("link", name="invoice.render").click()
    page.get_by_role("button", name="Retry now").click()
    mark(page)
    expect(page.locator("#job")).to_have_attribute("data-status", "done", timeout=30_000)
    assert is_marked(page)
    assert scene.row(job)["attempts"] == 1
    page.goto("/dead-letters/")
    expect(page.locator("main")).to_contain_text("Nothing is dead")


def test_what_a_filter_matches_is_retried_at_once(scene: Scene, sign_in: SignIn) -> None:
    wanted = [scene.job(status="dead", type="a", last_error_class="tls") for _ in range(60)]
    others = [scene.job(status="dead", type="b", last_error_class="tls") for _ in range(3)]
    page = sign_in()
    page.goto("/jobs/?status=dead")
    page.get_by_label("Type", exact=True).fill("a")
    page.get_by_role("button", name="Apply").click()
    expect(page).to_have_url(re.compile(r"/jobs/\?.*type=a"))
    assert "q=" not in page.url, "no empty fields in the address"
    page.locator(".bulk-bar").get_by_role("link", name="Retry").click()
    expect(page.locator("h1")).to_have_text("Retry 60 jobs?")
    page.get_by_role("button", name="Retry 60 jobs").click()
    expect(page.locator("#flashes")).to_contain_text("60 jobs are on their way again.")
    assert {scene.status(job) for job in wanted} == {"scheduled"}
    assert {scene.status(job) for job in others} == {"dead"}


def test_ticks_stay_while_the_list_refreshes_itself(scene: Scene, sign_in: SignIn) -> None:
    job, other = scene.job(status="dead", type="first"), scene.job(status="dead", type="second")
    page = sign_in()
    page.goto("/jobs/?status=dead")
    expect(page.locator("[data-ticked]")).to_have_text("Tick jobs to act on them")
    page.locator(f"#job-{job} [data-tick]").check()
    expect(page.locator("[data-ticked]")).to_have_text("1 ticked:")
    newer = scene.job(status="dead", type="third")
    expect(page.locator(f"#job-{newer}")).to_be_visible(timeout=20_000)
    expect(page.locator(f"#job-{job} [data-tick]")).to_be_checked()
    expect(page.locator(f"#job-{newer} [data-tick]")).not_to_be_checked()
    expect(page.locator("[data-ticked]")).to_have_text("1 ticked:")
    page.locator(".bulk-bar").get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Delete 1 job").click()
    expect(page.locator("#flashes")).to_contain_text("1 job is deleted.")
    assert {row["id"] for row in scene.all("jobs")} == {other, newer}


def test_a_job_is_cancelled_only_after_a_question(scene: Scene, sign_in: SignIn) -> None:
    job = scene.job(status="scheduled")
    page = sign_in()
    page.goto(f"/jobs/{job}")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Keep as it is").click()
    assert scene.status(job) == "scheduled"
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel the job").click()
    expect(page.locator("#job")).to_have_attribute("data-status", "cancelled")
    assert scene.status(job) == "cancelled"


def test_the_delays_follow_the_number_of_attempts(scene: Scene, sign_in: SignIn) -> None:
    page = sign_in()
    page.goto("/jobs/new")
    page.get_by_label("Attempts at most").fill("3")
    expect(page.locator("#planned-delays")).to_contain_text("wait 1 s, 2 s: 3 s in all")
    page.get_by_label("Attempts at most").fill("1")
    expect(page.locator("#planned-delays")).to_contain_text("no retry")


def test_a_viewer_looks_and_is_refused(scene: Scene, sign_in: SignIn) -> None:
    job = scene.job(status="dead")
    page = sign_in("viewer")
    page.goto("/jobs/")
    expect(page.locator(f"#job-{job}")).to_be_visible()
    expect(page.get_by_role("link", name="Submit a job")).to_have_count(0)
    expect(page.locator("[data-tick]")).to_have_count(0)
    page.goto(f"/jobs/{job}")
    expect(page.get_by_role("button", name="Retry now")).to_have_count(0)
    page.goto("/jobs/new")
    expect(page.locator("main")).to_contain_text("You may not do this")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_a_phone(scene: Scene, sign_in: SignIn, scheme: str) -> None:
    job = scene.job(
        status="dead",
        type="a-very-long-type-name-without-any-break-" * 3,
        callback_url="https://a-rather-long-host-name.of-a-customer.example.com/with/a/long/path?and=a-query",
        callback_host="https://a-rather-long-host-name.of-a-customer.example.com:443",
        last_error="The receiver answered 500 Internal Server Error.",
        last_error_class="http_5xx",
    )
    page = sign_in(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    for path in (
        "/jobs/",
        "/jobs/?status=dead&type=x",
        f"/jobs/{job}",
        "/jobs/new",
        "/dead-letters/",
        "/jobs/bulk?action=retry&every=1",
    ):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


def test_everything_works_without_scripts(scene: Scene, sign_in: SignIn) -> None:
    dead, other = scene.job(status="dead", type="first"), scene.job(status="dead", type="second")
    page = sign_in(java_script_enabled=False)
    page.goto("/jobs/")
    page.get_by_text("dead", exact=True).first.click()
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("table")).to_contain_text("second")
    page.locator(f"#job-{dead} [data-tick]").check()
    page.locator(".bulk-bar").get_by_role("button", name="Retry").click()
    page.get_by_role("button", name="Retry 1 job").click()
    expect(page.locator("#flashes")).to_contain_text("1 job is on its way again.")
    assert (scene.status(dead), scene.status(other)) == ("scheduled", "dead")
    page.goto("/jobs/new")
    page.get_by_label("Type", exact=True).fill("plain")
    page.get_by_label("Callback URL").fill("http://127.0.0.1:9/hook")
    page.get_by_label("Payload").fill("{")
    page.get_by_role("button", name="Submit the job").click()
    expect(page.locator("main")).to_contain_text("The payload is not JSON")
    page.get_by_label("Payload").fill("{}")
    page.get_by_role("button", name="Submit the job").click()
    expect(page.locator("h1")).to_have_text("plain")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel the job").click()
    expect(page.locator("#flashes")).to_contain_text("The job is cancelled.")


def test_nothing_from_outside_runs(scene: Scene, sign_in: SignIn) -> None:
    """The fixture fails on any dialog, script error or violation of the content policy."""
    for hostile in HOSTILE:
        job = make_job(
            scene.conn,
            make_client(scene.conn, hostile),
            "dead",
            id=uuid7(),
            type=hostile,
            payload=f'"{hostile}"' if '"' not in hostile else "{}",
            last_error=hostile,
            last_error_class="tls",
            idempotency_key=hostile,
            callback_url=f"https://h/{hostile}",
            callback_host=f"https://{hostile}",
        )
    page = sign_in()
    for path in (
        "/jobs/",
        "/dead-letters/",
        f"/jobs/{job}",
        f"/jobs/new?from={job}",
        "/jobs/bulk?action=delete&every=1",
    ):
        page.goto(path)
        expect(page.locator("img, iframe, object, embed")).to_have_count(0)
        assert page.evaluate("[...document.scripts].every((script) => new URL(script.src).origin === location.origin)")


def test_the_field_says_json_exactly_when_the_server_does(sign_in: SignIn) -> None:
    page = sign_in("viewer")
    told = page.evaluate(
        "async (texts) => { const { check } = await import('/static/json-check.js'); return texts.map((text) => check(text) === null); }",
        PAYLOADS,
    )
    assert told == [is_taken(payload) for payload in PAYLOADS]
    assert True in told and False in told


def is_taken(payload: str) -> bool:
    try:
        parse(payload.encode())
        parse(b'{"payload": %b}' % payload.encode())
    except NotStrictJson:
        return False
    return True


def test_the_copy_buttons_stay_while_the_page_refreshes_itself(scene: Scene, sign_in: SignIn) -> None:
    job = scene.job(status="dead")
    scene.conn.exec_driver_sql(
        "INSERT INTO executions (job_id, queue_generation, attempt, number, status, due_at, started_at, finished_at, status_code, response_body)"
        " SELECT id, 0, 1, 1, 'failed', now(), now(), now(), 500, 'oops' FROM jobs"
    )
    page = sign_in()
    with page.expect_response(
        lambda response: response.url.endswith(str(job)) and "x-fragment" in response.request.headers
    ):
        page.goto(f"/jobs/{job}")
    eventually(lambda: page.locator("#attempt [data-copy]").first.is_visible())
