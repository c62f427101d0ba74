"""The dashboard without a mouse, in a real browser: a job is found and submitted by keys alone, and where one is can be seen."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis
from playwright.sync_api import Page, expect
from sqlalchemy import Connection, Engine

from tests.factories import Scene

pytest_plugins = ("tests.browser_pages",)
SignIn = Callable[..., Page]

# More than any page between its top and what a test looks for.
STEPS = 80
# How what has the focus looks: its outline, its border, its shadow, and of a box inside it the same.
LOOKS = """element => [element, element.nextElementSibling].filter(Boolean).map((one) => {
  const style = getComputedStyle(one);
  const outline = style.outlineStyle === "none" ? "" : style.outlineWidth + style.outlineColor;
  return [outline, style.borderColor, style.boxShadow, style.top].join();
}).join()"""
# Changes of colour would be compared half-way.
STILL = "*, *::before, *::after { transition: none !important; }"


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


def step_to(page: Page, target: str) -> None:
    """Presses Tab until what the selector names has the focus."""
    for _ in range(STEPS):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", target):
            return
    raise AssertionError(f"{target} is not reached by Tab on {page.url}")


def test_a_job_is_submitted_by_keys_alone(scene: Scene, sign_in: SignIn) -> None:
    page = sign_in()
    page.goto("/jobs/")
    step_to(page, 'main a[href$="/jobs/new"]')
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Submit a job")
    expect(page.locator(":focus")).to_have_attribute("name", "type")
    page.keyboard.type("email.send")
    step_to(page, "[name=callback_url]")
    page.keyboard.type("http://127.0.0.1:9/hook")
    step_to(page, "textarea[name=payload]")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type('{"to": "ada"}')
    step_to(page, "main .form-buttons .btn-primary")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("email.send")
    (job,) = scene.all("jobs")
    assert (job["type"], job["callback_url"]) == ("email.send", "http://127.0.0.1:9/hook")
    assert job["payload"] == '{"to": "ada"}'


def test_a_question_is_answered_by_keys_and_gives_the_focus_back(scene: Scene, sign_in: SignIn) -> None:
    job = scene.job(status="scheduled")
    page = sign_in()
    page.goto(f"/jobs/{job}")
    cancel = page.get_by_role("button", name="Cancel")
    cancel.focus()
    page.keyboard.press("Enter")
    asked = page.get_by_role("button", name="Cancel the job")
    expect(asked).to_be_visible()
    page.keyboard.press("Escape")
    expect(asked).to_be_hidden()
    expect(cancel).to_be_focused()
    assert scene.status(job) == "scheduled"
    page.keyboard.press("Enter")
    step_to(page, "dialog[open] .btn-danger, [popover]:popover-open .btn-danger")
    page.keyboard.press("Enter")
    expect(page.locator("#job")).to_have_attribute("data-status", "cancelled")


def test_the_first_key_skips_to_the_content(sign_in: SignIn) -> None:
    page = sign_in("viewer")
    page.goto("/jobs/")
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to the content")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('main').contains(document.activeElement)")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_whatever_has_the_focus_looks_other_than_without_it(scene: Scene, sign_in: SignIn, scheme: str) -> None:
    scene.job(status="dead", type="invoice.render")
    page = sign_in(color_scheme=scheme)
    unseen: list[str] = []
    for path in ("/jobs/?status=dead", "/jobs/new", "/cron/new"):
        page.goto(path)
        page.evaluate(
            "css => { const sheet = new CSSStyleSheet(); sheet.replaceSync(css); document.adoptedStyleSheets = [sheet]; }",
            STILL,
        )
        seen = 0
        page.locator("body").evaluate("body => document.activeElement.blur()")
        for _ in range(STEPS):
            page.keyboard.press("Tab")
            focused = page.evaluate_handle("document.activeElement").as_element()
            if focused is None or focused.evaluate("element => element === document.body"):
                break
            seen += 1
            with_it = focused.evaluate(LOOKS)
            focused.evaluate("element => element.blur()")
            if focused.evaluate(LOOKS) == with_it:
                unseen.append(f"{path}: {focused.evaluate('element => element.outerHTML')[:160]}")
            focused.evaluate("element => element.focus({ focusVisible: true })")
        assert seen > 20, path
    assert unseen == []
