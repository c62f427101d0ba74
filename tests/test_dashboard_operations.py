"""Executions, processes, audit log, clients and users: what they show, and what an admin can do there."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Connection, text

from app import users
from app.extensions import db
from tests.factories import make_client, make_job, make_worker, now
from tests.pages import HOSTILE, PASSWORD, Person, assert_text_only


@pytest.fixture
def admin(app: Flask) -> Person:
    return Person(app, "ada", "admin")


def make_attempt(
    conn: Connection, client: int, host: str, status: str, code: int | None, took: float, ago: float
) -> str:
    job = make_job(conn, client, "done", callback_host=host)
    ended = now(conn) - timedelta(seconds=ago)
    conn.execute(
        text("""INSERT INTO executions (job_id, queue_generation, attempt, number, status, due_at, started_at, finished_at,
                                        status_code, error)
                VALUES (:job, 0, 1, 1, :status, :started, :started, :ended, :code, :error)"""),
        {
            "job": job,
            "status": status,
            "started": ended - timedelta(seconds=took),
            "ended": ended,
            "code": code,
            "error": None if status == "succeeded" else "It went wrong.",
        },
    )
    return str(job)


def shown_jobs(page: str) -> list[str]:
    return re.findall(r'id="attempt-([0-9a-f-]{36})-1"', page)


def test_executions_are_newest_first_and_filtered_by_outcome_host_and_code(app: Flask, db_conn: Connection) -> None:
    client = make_client(db_conn)
    quick = make_attempt(db_conn, client, "https://one.example", "succeeded", 200, 0.1, 1)
    slow = make_attempt(db_conn, client, "https://two.example", "failed", 500, 9.0, 2)
    oldest = make_attempt(db_conn, client, "https://two.example", "timed_out", None, 1.0, 3)
    viewer = Person(app, "eve", "viewer")
    assert shown_jobs(viewer.get("/executions/")) == [quick, slow, oldest]
    assert shown_jobs(viewer.get("/executions/?order=slowest")) == [slow, oldest, quick]
    assert shown_jobs(viewer.get("/executions/?status=timed_out")) == [oldest]
    assert shown_jobs(viewer.get("/executions/?host=two")) == [slow, oldest]
    assert shown_jobs(viewer.get("/executions/?code=500")) == [slow]
    assert shown_jobs(viewer.get("/executions/?code=abc&status=nonsense&before=x")) == [quick, slow, oldest]


def test_executions_go_on_below_the_last_one_shown(app: Flask, db_conn: Connection) -> None:
    client = make_client(db_conn)
    made = [make_attempt(db_conn, client, "h", "succeeded", 200, 0.1, ago) for ago in range(120)]
    viewer, address, seen = Person(app, "eve", "viewer"), "/executions/", []
    while address:
        page = viewer.get(address)
        seen += shown_jobs(page)
        older = re.search(r'href="([^"]+)" rel="next"', page)
        address = older.group(1).replace("&amp;", "&") if older else ""
    assert seen == made


def test_processes_tell_the_living_from_the_lost_and_who_leads(app: Flask, db_conn: Connection) -> None:
    alive, lost = make_worker(db_conn), make_worker(db_conn)
    db_conn.execute(text("UPDATE processes SET lost_at = punctual_now() WHERE id = :id"), {"id": lost})
    db_conn.execute(text("UPDATE leader SET holder = :id, expires_at = punctual_now() + interval '1 h'"), {"id": alive})
    page = Person(app, "eve", "viewer").get("/processes/")
    rows = dict(re.findall(r'id="process-([0-9a-f-]+)">(.*?)</tr>', page, re.DOTALL))
    assert "alive" in rows[str(alive)] and "leads" in rows[str(alive)]
    assert "lost" in rows[str(lost)] and "leads" not in rows[str(lost)]


def test_a_key_is_shown_once_works_at_once_and_is_refused_when_revoked(
    admin: Person, client: FlaskClient, db_conn: Connection
) -> None:
    page = admin.post("/clients/keys", client="billing", label="production", expires_in_days="30").text
    key = re.search(r"pk_[A-Za-z0-9_-]{43}", page).group()  # type: ignore[union-attr]
    assert key not in admin.get("/clients/")
    assert client.get("/v1/jobs", headers={"Authorization": f"Bearer {key}"}).status_code == 200
    assert admin.post(f"/clients/keys/{key[:11]}/revoke").status_code == 302
    assert db_conn.execute(text("SELECT revoked_at IS NOT NULL FROM api_keys")).scalar_one()
    actions = db_conn.execute(text("SELECT action FROM audit_log WHERE actor = 'ada' ORDER BY id")).scalars().all()
    assert [action for action in actions if action.startswith("api_key")] == ["api_key.create", "api_key.revoke"]


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/clients/keys", {"client": ""}),
        ("/clients/keys", {"client": "x", "expires_in_days": "soon"}),
        ("/clients/{id}/quota", {"rate_limit": "0"}),
        ("/clients/{id}/quota", {"rate_limit": "-1"}),
        ("/clients/{id}/rotate-secret", {"grace_hours": "169"}),
        ("/users/", {"name": "bob", "role": "king"}),
        ("/users/", {"name": "ada", "role": "viewer"}),
    ],
)
def test_what_cannot_be_done_says_why(admin: Person, db_conn: Connection, path: str, fields: dict[str, str]) -> None:
    answer = admin.post(path.format(id=make_client(db_conn)), **fields)
    assert answer.status_code == 422
    assert "Nothing was changed." in answer.text


def test_a_quota_is_set_and_taken_back(admin: Person, db_conn: Connection) -> None:
    client_id = make_client(db_conn)
    for given, kept in (("50", 50), ("", None)):
        admin.post(f"/clients/{client_id}/quota", rate_limit=given)
        assert db_conn.execute(text("SELECT rate_limit_per_minute FROM clients")).scalar_one() == kept


def test_a_rotated_secret_is_shown_once_and_the_old_one_stays_for_the_grace_time(
    admin: Person, db_conn: Connection
) -> None:
    client_id = make_client(db_conn)
    old = db_conn.execute(text("SELECT signing_secret FROM clients")).scalar_one()
    page = admin.post(f"/clients/{client_id}/rotate-secret", grace_hours="2").text
    row = db_conn.execute(text("SELECT *, previous_secret_expires_at - punctual_now() AS left FROM clients")).one()
    assert row.signing_secret != old and row.previous_signing_secret == old
    assert timedelta(hours=1, minutes=59) < row.left <= timedelta(hours=2)
    assert row.signing_secret in page and row.signing_secret not in admin.get("/clients/")


def test_a_user_is_created_with_a_password_that_works(admin: Person) -> None:
    page = admin.post("/users/", name="bob", role="operator").text
    password = re.search(r'<code dir="auto">([^<]+)</code>', page).group(1)  # type: ignore[union-attr]
    bob = users.sign_in(db.engine, "bob", password)
    assert bob is not None and bob.role == "operator"


def test_nobody_locks_everybody_out(admin: Person) -> None:
    ada = users.find_user_by_name(db.engine, "ada")
    assert ada is not None
    for path, fields in ((f"/users/{ada.id}/disable", {}), (f"/users/{ada.id}/role", {"role": "viewer"})):
        assert admin.post(path, **fields).status_code == 422
    bob = users.create_user(db.engine, "bob", "admin", PASSWORD)
    assert admin.post(f"/users/{bob.id}/role", role="viewer").status_code == 302
    with pytest.raises(users.UserInvalid):
        users.set_role(db.engine, ada.id, "viewer")
    with pytest.raises(users.UserInvalid):
        users.disable_by_id(db.engine, ada.id)


def test_a_disabled_user_is_signed_out_and_can_be_enabled_again(app: Flask, admin: Person) -> None:
    bob = Person(app, "bob", "operator")
    known = users.find_user_by_name(db.engine, "bob")
    assert known is not None
    admin.post(f"/users/{known.id}/disable")
    assert bob.open("/account").status_code == 302
    admin.post(f"/users/{known.id}/enable")
    assert users.sign_in(db.engine, "bob", PASSWORD) is not None


def test_hostile_text_is_text_on_these_pages(admin: Person, db_conn: Connection) -> None:
    for hostile in HOSTILE:
        client_id = make_client(db_conn, hostile)
        make_attempt(db_conn, client_id, hostile, "failed", 500, 1, 1)
        db_conn.execute(
            text("""INSERT INTO audit_log (actor_kind, actor, action, target_kind, target_id, detail)
                    VALUES ('user', CAST(:text AS text), 'x.y', 'client', CAST(:text AS text), jsonb_build_object('a', CAST(:text AS text)))"""),
            {"text": hostile},
        )
    for path in ("/executions/", "/audit/", "/clients/", "/users/", "/processes/"):
        assert_text_only(admin.get(path))


def test_the_audit_log_is_searched_by_who_what_and_to_what(admin: Person, db_conn: Connection) -> None:
    for actor, action, target in (
        ("eve", "job.retry", "j1"),
        ("bob", "job.cancel", "j2"),
        ("bob", "user.create", "eve"),
    ):
        db_conn.execute(
            text(
                "INSERT INTO audit_log (actor_kind, actor, action, target_kind, target_id) VALUES ('user', :a, :b, 'x', :c)"
            ),
            {"a": actor, "b": action, "c": target},
        )
    for q, found in (("eve", 2), ("job.", 2), ("j2", 1), ("nobody", 0)):
        assert admin.get(f"/audit/?q={q}").count('id="entry-') == found
