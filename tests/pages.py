"""A person at the dashboard, on Flask's test client: signed in, with the token that forms carry."""

from __future__ import annotations

import html
import re
from typing import Any

from flask import Flask, g
from werkzeug.test import TestResponse

from app import users
from app.extensions import db

PASSWORD = "a long enough passphrase"
_TOKEN = re.compile(r'name="csrf_token"[^>]*value="([^"]+)"')
# What must stay text wherever it is shown.
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "javascript:alert(1)",
    '"><svg onload=alert(1)>',
    "\u202egnp.exe\u2066",
)


class Person:
    """A user of a role, signed in."""

    def __init__(self, app: Flask, name: str, role: str) -> None:
        users.create_user(db.engine, name, role, PASSWORD)
        self.client = app.test_client()
        self.token = _token(self.open("/sign-in"))
        answer = self.post("/sign-in", name=name, password=PASSWORD)
        assert answer.status_code == 302, answer.text
        self.token = _token(self.open("/account"))

    def open(self, path: str, **options: Any) -> TestResponse:
        """Any request. The tests' application context outlives requests, and what a request has kept there with it: not this time."""
        for kept in list(g):
            g.pop(kept)
        return self.client.open(path, **options)

    def get(self, path: str, status: int = 200, **options: Any) -> str:
        """The page's text."""
        answer = self.open(path, **options)
        assert answer.status_code == status, (
            f"{answer.status_code} {answer.headers.get('Location')}\n{answer.text[:2000]}"
        )
        return answer.text

    def fragment(self, path: str) -> str:
        """The part of a page that the page itself asks for again."""
        return self.get(path, headers={"X-Fragment": "1"})

    def redirected(self, path: str) -> str:
        """Where a page leads to."""
        answer = self.open(path)
        assert answer.status_code == 302, answer.text[:2000]
        return answer.headers["Location"]

    def post(self, path: str, **fields: Any) -> TestResponse:
        return self.open(path, method="POST", data={"csrf_token": self.token, **fields})

    def told(self) -> list[str]:
        """What the next page says about the last change."""
        page = self.get("/account")
        return [
            html.unescape(said)
            for said in re.findall(r'class="flash [^>]*>.*?<span>(.*?)</span></div>', page, re.DOTALL)
        ]


def _token(answer: TestResponse) -> str:
    found = _TOKEN.search(answer.text)
    assert found is not None, answer.text[:1000]
    return found.group(1)


def assert_text_only(page: str) -> None:
    """No hostile text has become markup, an address that runs, or a sign that turns its neighbours."""
    assert "<img src=x" not in page
    assert "<script>alert" not in page and "</script><script>" not in page
    assert "<svg onload" not in page
    assert not re.search(r"""(?:href|src|action)=["']?\s*javascript:""", page, re.IGNORECASE)
    assert "\u202e" not in page and "\u2066" not in page and "\0" not in page
