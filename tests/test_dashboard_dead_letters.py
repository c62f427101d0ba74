"""Dead letters: groups by error and host, and acting on a group or on what a filter matches."""

from __future__ import annotations

import re

import pytest
import redis
from flask import Flask
from sqlalchemy import Connection, Engine

from app.jobs import dead_letters
from tests.factories import Scene
from tests.pages import Person, assert_text_only
from tests.test_dashboard_bulk import asked
from tests.test_dashboard_jobs import listed, newest_first

A, B = "https://a.example.com:443", "http://b.example.com:8080"


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


@pytest.fixture
def ada(app: Flask) -> Person:
    return Person(app, "ada", "operator")


def dead(scene: Scene, error_class: str, host: str, count: int = 1) -> list:  # type: ignore[type-arg]
    columns = {"last_error_class": error_class, "callback_host": host, "last_error": f"{error_class} at {host}"}
    return [scene.job(status="dead", **columns) for _ in range(count)]


def link_of(page: str, action: str, error_class: str) -> str:
    found = re.search(rf'href="(/jobs/bulk\?action={action}[^"]*error={error_class}[^"]*)"', page)
    assert found is not None
    return found.group(1).replace("&amp;", "&")


def test_groups_by_error_and_host_largest_first(scene: Scene, engine: Engine) -> None:
    dead(scene, "tls", A)
    newest = max(dead(scene, "timeout", A, 3))
    dead(scene, "timeout", B, 2)
    scene.job(status="done", last_error_class="timeout", callback_host=A)
    found = dead_letters.groups(engine)
    assert [(group.error_class, group.callback_host, group.count) for group in found] == [
        ("timeout", A, 3),
        ("timeout", B, 2),
        ("tls", A, 1),
    ]
    assert found[0].newest_id == newest and found[0].last_error == f"timeout at {A}"


def test_a_group_is_counted_up_to_the_cap(
    scene: Scene, engine: Engine, ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "COUNT_CAP", 2)
    dead(scene, "tls", A, 5)
    assert dead_letters.groups(engine)[0].count == 3


def test_lists_dead_jobs_alone_whatever_the_address_says(scene: Scene, ada: Person) -> None:
    jobs = dead(scene, "tls", A, 2)
    scene.job(status="done")
    assert listed(ada.get("/dead-letters/")) == newest_first(*jobs)
    assert ada.redirected("/dead-letters/?status=done&error=tls") == "/dead-letters/?error=tls"
    assert listed(ada.get("/dead-letters/?error=dns")) == []


def test_filters_by_group(scene: Scene, ada: Person) -> None:
    wanted = dead(scene, "tls", A)
    dead(scene, "tls", B)
    dead(scene, "dns", A)
    assert listed(ada.get(f"/dead-letters/?error=tls&host={A}")) == wanted
    assert listed(ada.get("/dead-letters/?error=tls&host=a.example.com")) == wanted


def test_retries_a_group_and_no_other(scene: Scene, ada: Person) -> None:
    group, others = dead(scene, "tls", A, 3), dead(scene, "tls", B) + dead(scene, "dns", A)
    page = ada.get(link_of(ada.get("/dead-letters/"), "retry", "tls"))
    assert "Retry 3 jobs?" in page
    answer = ada.post("/jobs/bulk", **asked(page))
    assert answer.headers["Location"] == "/dead-letters/"
    assert {scene.status(job) for job in group} == {"scheduled"}
    assert {scene.status(job) for job in others} == {"dead"}
    assert len(scene.ready()) == 3


def test_deletes_a_group_and_no_other(scene: Scene, ada: Person) -> None:
    dead(scene, "tls", A, 2)
    other = dead(scene, "dns", A)
    done = scene.job(status="done", last_error_class="tls", callback_host=A)
    ada.post("/jobs/bulk", **asked(ada.get(link_of(ada.get("/dead-letters/"), "delete", "tls"))))
    assert ada.told() == ["2 jobs are deleted."]
    assert {row["id"] for row in scene.all("jobs")} == {done, *other}


def test_retries_what_a_filter_matches(scene: Scene, ada: Person) -> None:
    wanted = [scene.job(status="dead", type="a", last_error_class="tls") for _ in range(60)]
    other = scene.job(status="dead", type="b", last_error_class="tls")
    page = ada.get("/dead-letters/?type=a")
    link = re.search(r'href="(/jobs/bulk\?[^"]*type=a[^"]*action=retry[^"]*)"', page)
    assert link is not None and "All that match (60)" in page
    ada.post("/jobs/bulk", **asked(ada.get(link.group(1).replace("&amp;", "&"))))
    assert ada.told() == ["60 jobs are on their way again."]
    assert {scene.status(job) for job in wanted} == {"scheduled"} and scene.status(other) == "dead"


def test_says_when_nothing_is_dead(app: Flask, scene: Scene, ada: Person) -> None:
    assert "Nothing is dead" in ada.get("/dead-letters/")


def test_a_viewer_sees_groups_and_no_buttons(app: Flask, scene: Scene) -> None:
    dead(scene, "tls", A)
    page = Person(app, "vic", "viewer").get("/dead-letters/")
    assert "a.example.com" in page
    assert "/jobs/bulk" not in page


def test_the_live_part_is_groups_and_list(scene: Scene, ada: Person) -> None:
    jobs = dead(scene, "tls", A)
    part = ada.fragment("/dead-letters/")
    assert listed(part) == jobs and 'id="groups"' in part and "<html" not in part


def test_a_group_named_by_a_receiver_is_text(scene: Scene, ada: Person) -> None:
    dead(scene, "<b>x</b>", "https://<img src=x onerror=alert(1)>:443")
    page = ada.get("/dead-letters/")
    assert_text_only(page)
    assert "<b>x</b>" not in page
