"""Signing in and out, the throttle, and what ends a session."""

from __future__ import annotations

import pytest
from flask import Flask

from app import users
from app.dashboard.local_path import local_path
from app.extensions import db
from tests.pages import PASSWORD, Person


def test_a_stranger_is_sent_to_sign_in_and_back(app: Flask) -> None:
    answer = app.test_client().get("/account?x=1")
    assert answer.status_code == 302
    assert answer.headers["Location"] == "/sign-in?next=/account?x%3D1"


def test_signing_in_opens_the_overview(app: Flask) -> None:
    assert "Overview" in Person(app, "ada", "viewer").get("/")


@pytest.mark.parametrize(("name", "password"), [("ada", "wrong password"), ("nobody", PASSWORD)])
def test_a_wrong_name_and_a_wrong_password_read_the_same(app: Flask, name: str, password: str) -> None:
    person = Person(app, "ada", "viewer")
    person.post("/sign-out")
    person.token = _token(person)
    answer = person.post("/sign-in", name=name, password=password)
    assert answer.status_code == 401
    assert "The name or the password is wrong." in answer.text


def test_the_eleventh_failure_in_five_minutes_is_throttled_even_with_the_right_password(app: Flask) -> None:
    person = Person(app, "ada", "viewer")
    person.post("/sign-out")
    person.token = _token(person)
    for _ in range(10):
        assert person.post("/sign-in", name="ada", password="wrong password").status_code == 401
    throttled = person.post("/sign-in", name="ada", password=PASSWORD)
    assert throttled.status_code == 429
    assert int(throttled.headers["Retry-After"]) >= 1


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "javascript:alert(1)",
        "\t//evil.example",
        "",
        None,
    ],
)
def test_next_leads_only_to_a_local_path(target: str | None) -> None:
    assert local_path(target, "/") == "/"


def test_next_leads_to_a_local_path() -> None:
    assert local_path("/jobs?status=dead", "/") == "/jobs?status=dead"


def test_a_session_ends_with_the_sign_out(app: Flask) -> None:
    person = Person(app, "ada", "viewer")
    stolen = person.client.get_cookie(app.config["SESSION_COOKIE_NAME"])
    assert stolen is not None
    assert person.post("/sign-out").status_code == 302
    thief = app.test_client()
    thief.set_cookie(app.config["SESSION_COOKIE_NAME"], stolen.value)
    assert thief.get("/account").status_code == 302


def test_sign_out_everywhere_ends_the_other_browsers_session(app: Flask) -> None:
    here = Person(app, "ada", "viewer")
    elsewhere = app.test_client()
    page = elsewhere.get("/sign-in").text
    elsewhere.post("/sign-in", data={"csrf_token": _token_in(page), "name": "ada", "password": PASSWORD})
    assert elsewhere.get("/account").status_code == 200
    here.post("/account/sign-out-everywhere")
    assert elsewhere.get("/account").status_code == 302


def test_a_new_password_ends_other_sessions_and_keeps_this_one(app: Flask) -> None:
    person = Person(app, "ada", "viewer")
    elsewhere = app.test_client()
    page = elsewhere.get("/sign-in").text
    elsewhere.post("/sign-in", data={"csrf_token": _token_in(page), "name": "ada", "password": PASSWORD})
    new = "another long passphrase"
    answer = person.post("/account", current=PASSWORD, password=new, repeated=new)
    assert answer.status_code == 302, answer.text
    assert elsewhere.get("/account").status_code == 302
    assert person.open("/account").status_code == 200
    assert users.sign_in(db.engine, "ada", new) is not None


def test_disabling_a_user_ends_the_session(app: Flask) -> None:
    person = Person(app, "ada", "viewer")
    users.disable_user(db.engine, "ada")
    assert person.open("/account").status_code == 302


def test_a_post_without_the_token_changes_nothing(app: Flask) -> None:
    person = Person(app, "ada", "viewer")
    assert person.open("/sign-out", method="POST").status_code == 400
    assert person.open("/account").status_code == 200


def _token(person: Person) -> str:
    return _token_in(person.open("/sign-in").text)


def _token_in(page: str) -> str:
    return page.split('name="csrf_token"')[1].split('value="')[1].split('"')[0]
