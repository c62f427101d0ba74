"""Every route of the dashboard: closed to strangers, with a role of its own, and with strict headers."""

from __future__ import annotations

import re

import pytest
from flask import Flask
from werkzeug.routing import Rule

from app.dashboard.roles import ANYBODY, required_role
from tests.pages import Person

SAMPLES = {"uuid": "01936c80-0000-7000-8000-000000000000", "int": "1", "path": "punctual.css"}


def pages(app: Flask) -> list[tuple[str, str, str]]:
    """(method, path, role) of every route of the dashboard."""
    found = []
    for rule in app.url_map.iter_rules():
        if rule.endpoint.startswith("dashboard.") and not rule.endpoint.endswith(".static"):
            for method in sorted((rule.methods or set()) & {"GET", "POST", "PUT", "PATCH", "DELETE"}):
                role = required_role(app.view_functions[rule.endpoint], method)
                assert role is not None, f"{method} {rule} names no role"
                found.append((method, _sample(rule), role))
    return found


def _sample(rule: Rule) -> str:
    def fill(found: re.Match[str]) -> str:
        kind = found.group(1) or "string"
        return SAMPLES.get(kind, SAMPLES["uuid"] if "job" in found.group(2) else "1")

    return re.sub(r"<(?:(\w+)(?:\([^)]*\))?:)?(\w+)>", fill, rule.rule)


def test_a_stranger_reaches_nothing_but_the_sign_in(app: Flask) -> None:
    app.config["WTF_CSRF_ENABLED"] = False
    try:
        for method, path, role in pages(app):
            answer = app.test_client().open(path, method=method)
            if role == ANYBODY:
                continue
            assert answer.status_code == 302 and "/sign-in" in answer.headers["Location"], f"{method} {path}"
    finally:
        app.config["WTF_CSRF_ENABLED"] = True


@pytest.mark.parametrize(("role", "refused"), [("viewer", {"operator", "admin"}), ("operator", {"admin"})])
def test_a_role_is_refused_what_is_above_it(app: Flask, role: str, refused: set[str]) -> None:
    person = Person(app, "ada", role)
    for method, path, required in pages(app):
        if required in refused:
            answer = person.open(path, method=method, data={"csrf_token": person.token})
            assert answer.status_code == 403, f"{method} {path}: {answer.status_code}"


def test_no_page_changes_anything_by_get(app: Flask) -> None:
    reading = {path for method, path, role in pages(app) if method == "GET" and role in ("operator", "admin")}
    writing = [path for path in reading if re.search(r"/(retry|cancel|delete|revoke|pause|resume|run|disable)\b", path)]
    assert writing == []


@pytest.mark.parametrize("path", ["/", "/sign-in", "/account", "/no-such-page"])
def test_each_page_has_the_strict_headers(app: Flask, path: str) -> None:
    answer = Person(app, "ada", "admin").open(path)
    policy = answer.headers["Content-Security-Policy"]
    assert "unsafe" not in policy and "frame-ancestors 'none'" in policy and "default-src 'none'" in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "Referrer-Policy" in answer.headers
    assert not re.search(r"<script(?![^>]*\bsrc=)|\sstyle=|\son\w+=", answer.text)


def test_cookies_are_httponly_lax_and_secure_behind_tls(app: Flask) -> None:
    answer = app.test_client().get("/sign-in", base_url="https://localhost")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and "Secure" in cookie
