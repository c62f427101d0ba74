"""The queues page: what each is doing, its limits, pausing, resuming, purging; hostile text stays text."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import Connection, text

from tests import forms
from tests.factories import make_client, make_job, make_queue, now
from tests.pages import HOSTILE, Person, assert_text_only


@pytest.fixture
def operator(app: Flask) -> Person:
    return Person(app, "bob", "operator")


def row(page: str, queue_id: int) -> str:
    """A queue's row as text, blanks made one."""
    found = re.search(rf'<tr id="queue-{queue_id}".*?</tr>', page, re.DOTALL)
    assert found is not None
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", found[0])))


def stored(conn: Connection, queue_id: int) -> dict[str, Any]:
    return dict(conn.execute(text("SELECT * FROM queues WHERE id = :id"), {"id": queue_id}).mappings().one())


def audited(conn: Connection) -> list[Any]:
    query = text("SELECT action, actor, target_id FROM audit_log WHERE action LIKE 'queue.%' ORDER BY id")
    return [tuple(row) for row in conn.execute(query)]


def test_every_clients_queues_are_listed_with_what_they_do(app: Flask, db_conn: Connection) -> None:
    ours, theirs = make_client(db_conn, "ours"), make_client(db_conn, "theirs")
    mail = make_queue(db_conn, ours, "mail", concurrency=4, rate_limit=10, rate_period_seconds=60)
    other = make_queue(db_conn, theirs, "mail", paused_at=now(db_conn), pause_reason="moving", paused_by="ada")
    instant = now(db_conn)
    for status, seconds in (("pending", 90), ("pending", 5), ("scheduled", -600), ("running", 5), ("running", 5)):
        make_job(db_conn, ours, status, queue_id=mail, run_at=instant - timedelta(seconds=seconds))
    db_conn.execute(
        text("UPDATE queues SET rate_starts = :starts, rate_counts = '{3}' WHERE id = :id"),
        {"starts": [instant], "id": mail},
    )
    viewer = Person(app, "eve", "viewer")
    for page in (viewer.get("/queues/"), viewer.fragment("/queues/")):
        shown = row(page, mail)
        assert "ours 2 1 later 2 of 4 3 of 10 in 1 min" in shown and "1 min 3" in shown
        assert re.search(r"mail paused theirs .* by ada : moving 0 0 no limit —", row(page, other))
        assert f'href="/jobs/?queue=mail&amp;client={ours}"' in page
        assert "Pause" not in page and "Purge" not in page and "/edit" not in page
    assert "queue-" not in viewer.get("/queues/?q=nothing")
    assert f"queue-{other}" not in viewer.get(f"/queues/?q=AI&client={ours}")


def test_the_list_goes_on_by_name(app: Flask, db_conn: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.dashboard.queues.PAGE", 2)
    client = make_client(db_conn)
    made = [make_queue(db_conn, client, name) for name in ("e", "a", "c", "b")]
    viewer, path, seen = Person(app, "eve", "viewer"), "/queues/", []
    while path:
        page = viewer.get(path)
        seen += [int(found) for found in re.findall(r'id="queue-(\d+)"', page)]
        following = re.search(r'href="([^"]*)" rel="next"', page)
        path = html.unescape(following[1]) if following else ""
    default = stored(db_conn, min(made) - 1)["id"]
    assert seen == [made[1], made[3], made[2], default, made[0]]


def test_limits_are_shown_changed_and_taken_away(operator: Person, db_conn: Connection) -> None:
    queue = make_queue(
        db_conn,
        make_client(db_conn),
        "mail",
        concurrency=4,
        rate_limit=10,
        rate_period_seconds=90,
        default_timeout_seconds=0.5,
    )
    path = f"/queues/{queue}/edit"
    shown = forms.values(operator.get(path))
    assert shown == {
        "concurrency": "4",
        "rate_limit": "10",
        "rate_period_seconds": "90 s",
        "default_max_attempts": "",
        "default_timeout_seconds": "0.5 s",
        "circuit_breaker": "",
    }
    before = stored(db_conn, queue)
    assert operator.post(path, **shown).status_code == 302
    assert stored(db_conn, queue) == before and audited(db_conn) == []
    changed = {
        "concurrency": " 7 ",
        "rate_limit": "",
        "rate_period_seconds": "",
        "default_max_attempts": "3",
        "circuit_breaker": "off",
    }
    assert (
        operator.post(path, **{**shown, **changed, "default_timeout_seconds": "2 min"}).headers["Location"]
        == "/queues/"
    )
    after = stored(db_conn, queue)
    assert [after[name] for name in shown] == [7, None, None, 3, 120, False]
    assert audited(db_conn) == [("queue.change", "bob", "mail")]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("concurrency", "0", "greater than or equal to 1"),
        ("concurrency", "many", "whole number"),
        ("rate_limit", "1000001", "less than or equal to 1000000"),
        ("rate_period_seconds", "0.01 s", "greater than or equal to 0.1"),
        ("rate_period_seconds", "8 d", "less than or equal to 604800"),
        ("rate_period_seconds", "", "Give both"),
        ("rate_limit", "", "Give both"),
        ("default_max_attempts", "101", "less than or equal to 100"),
        ("default_timeout_seconds", "soon", "span of time"),
        ("default_timeout_seconds", "1 h", "less than or equal to 900"),
        ("circuit_breaker", "maybe", "Not a valid choice"),
    ],
)
def test_a_form_that_cannot_be_says_what_is_wrong(
    operator: Person, db_conn: Connection, field: str, value: str, said: str
) -> None:
    queue = make_queue(db_conn, make_client(db_conn), "mail", rate_limit=10, rate_period_seconds=60)
    before = stored(db_conn, queue)
    path = f"/queues/{queue}/edit"
    answer = operator.post(path, **{**forms.values(operator.get(path)), field: value})
    told = forms.refusals(answer)
    assert list(told) == [field] and said in told[field]
    assert stored(db_conn, queue) == before


def test_a_queue_is_paused_with_a_reason_and_resumed(operator: Person, db_conn: Connection) -> None:
    queue = make_queue(db_conn, make_client(db_conn), "mail")
    answer = operator.post(f"/queues/{queue}/pause", reason=" the receiver\r\nis moved ", next="/queues/?q=mail")
    assert answer.headers["Location"] == "/queues/?q=mail"
    paused = stored(db_conn, queue)
    assert (paused["pause_reason"], paused["paused_by"]) == ("the receiver\nis moved", "bob")
    assert "Resume" in row(operator.get("/queues/"), queue)
    assert operator.post(f"/queues/{queue}/resume", next="//elsewhere.example/").headers["Location"] == "/queues/"
    assert stored(db_conn, queue)["paused_at"] is None
    assert audited(db_conn) == [("queue.pause", "bob", "mail"), ("queue.resume", "bob", "mail")]


def test_a_purge_asks_for_the_name(operator: Person, db_conn: Connection) -> None:
    client = make_client(db_conn)
    queue = make_queue(db_conn, client, "mail")
    for name in ("pending", "scheduled", "running"):
        make_job(db_conn, client, name, queue_id=queue)
    count = text("SELECT count(*) FROM jobs WHERE status = 'cancelled'")
    for typed in ("", "Mail", "default"):
        assert operator.post(f"/queues/{queue}/purge", name=typed).status_code == 302
        assert "not the queue's name" in operator.told()[0]
    assert db_conn.execute(count).scalar_one() == 0
    operator.post(f"/queues/{queue}/purge", name=" mail ")
    assert operator.told() == ["2 jobs are cancelled."]
    assert db_conn.execute(count).scalar_one() == 2
    assert audited(db_conn) == [("queue.purge", "bob", "mail")]


@pytest.mark.parametrize("path", ["edit", "pause", "resume", "purge"])
@pytest.mark.parametrize("queue", ["999999999", "99999999999999999999999"])
def test_a_queue_that_is_not_there_is_a_404(operator: Person, path: str, queue: str) -> None:
    assert operator.post(f"/queues/{queue}/{path}").status_code == 404


def test_hostile_text_is_text(operator: Person, db_conn: Connection) -> None:
    client = make_client(db_conn, HOSTILE[0])
    paused = {"paused_at": now(db_conn), "paused_by": HOSTILE[3]}
    queues = [make_queue(db_conn, client, hostile[:64], pause_reason=hostile, **paused) for hostile in HOSTILE]
    for path in ("/queues/", *(f"/queues/{queue}/edit" for queue in queues)):
        assert_text_only(operator.get(path))


def test_hosts_whose_calls_are_held_back_are_shown(db_conn: Connection, operator: Person) -> None:
    client_id = make_client(db_conn, "failing")
    assert "held back" not in operator.get("/queues/")
    db_conn.execute(
        text(
            "INSERT INTO circuits (client_id, host, opened_at, retry_at, openings)"
            " VALUES (:id, 'https://hooks.example:443', punctual_now(), punctual_now() + interval '30 s', 1)"
        ),
        {"id": client_id},
    )
    page = operator.fragment("/queues/")
    assert "Hosts whose calls are held back" in page and "hooks.example" in page
