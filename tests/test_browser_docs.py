"""/docs in a real browser: it draws the contract, under its own policy, without anything from outside."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.processes import Processes
from tests.programs import requires_program


@pytest.mark.timeout(180)
def test_the_page_draws_the_contract_and_tries_a_call(processes: Processes, api_key: str) -> None:
    path = requires_program("chromium", "chromium-browser", "google-chrome")
    url = processes.web()
    complaints: list[str] = []
    asked: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))

        page.goto(f"{url}/docs")
        expect(page.get_by_text("Submit a job")).to_be_visible()
        expect(page.get_by_text("Preview the times of an expression")).to_be_visible()

        page.get_by_role("button", name="Authorize").first.click()
        page.get_by_role("textbox", name="auth-bearer-value").fill(api_key)
        page.get_by_role("button", name="Apply credentials").click()
        page.get_by_role("button", name="Close").last.click()
        page.get_by_text("List dead jobs, newest first").click()
        page.get_by_role("button", name="Try it out").click()
        page.get_by_role("button", name="Execute").click()
        expect(page.locator(".live-responses-table .response-col_status").filter(has_text="200")).to_be_visible()
        browser.close()

    assert complaints == []
    assert {address.split("://")[0] for address in asked} <= {"http", "data", "blob"}
    assert all(address.startswith((url, "data:", "blob:")) for address in asked), asked
