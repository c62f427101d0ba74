"""A person at the dashboard in a real browser: fixtures for test modules that name this one in `pytest_plugins`."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask
from playwright.sync_api import Browser, Page, expect, sync_playwright
from sqlalchemy import Engine
from werkzeug.serving import WSGIRequestHandler, make_server

from app import users
from tests.pages import PASSWORD
from tests.programs import requires_program

SignIn = Callable[..., Page]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    path = requires_program("chromium", "chromium-browser", "google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: object) -> None:
        return None


@pytest.fixture
def address(app: Flask) -> Iterator[str]:
    """The application behind a server in this process: a browser test starts no second one."""
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def sign_in(chromium: Browser, engine: Engine, address: str) -> Iterator[SignIn]:
    """Signs a user of a role in; fails at the end when a page complained."""
    complaints: list[str] = []
    contexts = []

    def sign_in(role: str = "operator", **options: Any) -> Page:
        users.create_user(engine, role, role, PASSWORD)
        context = chromium.new_context(base_url=address, timezone_id="Europe/Berlin", **options)
        contexts.append(context)
        context.set_default_timeout(15_000)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on(
            "console", lambda said: complaints.append(said.text) if "Content Security Policy" in said.text else None
        )
        page.goto("/sign-in")
        page.get_by_label("User name").fill(role)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        expect(page).to_have_title(re.compile("Overview|Punctual"))
        return page

    yield sign_in
    for context in contexts:
        context.close()
    assert complaints == []
