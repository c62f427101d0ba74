"""A client sees only what is its own: another's job or cron entry is a 404 on each route, and in no list."""

from __future__ import annotations

import re
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Connection, text

from app.current import punctual
from scheduler.bulk import Bulk
from tests.api_calls import HOOK, ApiCalls, error
from tests.conftest import make_api_key

TEMPLATE = {"type": "t", "payload": {}, "callback_url": HOOK}
# What a route needs beside its address to come as far as the row.
BODIES: dict[str, Any] = {
    "api.edit_job": {"max_attempts": 3},
    "api.change_cron_job": {"enabled": False},
    "api.pause_cron_job": {},
    "api.backfill_cron_job": {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T01:00:00Z"},
}


@pytest.fixture
def owner(client: FlaskClient, api_key: str) -> ApiCalls:
    return ApiCalls(client, api_key)


@pytest.fixture
def stranger(client: FlaskClient, db_conn: Connection) -> ApiCalls:
    return ApiCalls(client, make_api_key(db_conn, "stranger"))


def rows(conn: Connection) -> list[Any]:
    jobs = conn.execute(text("SELECT jobs.*::text FROM jobs ORDER BY id")).all()
    entries = conn.execute(text("SELECT cron_entries.*::text FROM cron_entries ORDER BY id")).all()
    return [*jobs, *entries]


def test_another_clients_row_is_a_404_on_each_route(
    app: Flask, owner: ApiCalls, stranger: ApiCalls, db_conn: Connection
) -> None:
    job_id = owner.submitted()
    # Dead, so that a retry would be possible.
    db_conn.execute(text("UPDATE jobs SET status = 'dead', attempts = 5, finished_at = punctual_now()"))
    waiting_id = owner.submitted(delay_seconds=100)
    entry = owner.post("/v1/cron-jobs", {"cron_expression": "@daily", "job_template": TEMPLATE, "name": "n"}).get_json()
    before = rows(db_conn)
    tried = 0
    for rule in app.url_map.iter_rules():
        ids = [job_id, waiting_id] if "job_id" in rule.arguments else [str(entry["id"])]
        if not rule.rule.startswith("/v1") or not re.search(r"\b(?:cron_)?job_id>", rule.rule):
            continue
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
            for one in ids:
                path = re.sub(r"<[^>]+>", one, rule.rule.replace("<number>", "1"))
                error(stranger.call(method, path, json=BODIES.get(rule.endpoint)), 404)
                tried += 1

    assert tried >= 20
    assert rows(db_conn) == before


# Routes without a row in their address, and those of queues, which every client names for itself: what a stranger sends to each, with what
# it knows of the owner's things, and the status it gets.
WITHOUT_A_ROW: dict[tuple[str, str], list[tuple[str, Any, int]]] = {
    ("api.create_job", "POST"): [("", {**TEMPLATE, "idempotency_key": "secret-key"}, 201)],
    ("api.create_jobs", "POST"): [("", [{**TEMPLATE, "idempotency_key": "secret-key-2", "queue": "secret-queue"}], 200)],
    ("api.list_jobs", "GET"): [
        (query, None, 200)
        for query in (
            "", "?status=dead", "?type=secret-type", "?queue=secret-queue", "?tag=secret-tag", "?cron_job_id={entry}",
            "?idempotency_key=secret-key", "?callback_host=127.0.0.1:9", "?error_class=secret-class", "?cursor={job}",
            "?created_from=2000-01-01T00:00:00Z", "?run_at_from=2000-01-01T00:00:00Z",
        )
    ],
    ("api.list_dead_letters", "GET"): [("", None, 200)],
    ("api.list_cron_jobs", "GET"): [("", None, 200)],
    ("api.create_cron_job", "POST"): [("", {"cron_expression": "@daily", "job_template": TEMPLATE, "name": "secret-name"}, 201)],
    ("api.put_cron_job", "PUT"): [("secret-name", {"cron_expression": "@hourly", "job_template": TEMPLATE}, 200)],
    ("api.preview_cron_job", "POST"): [("", {"cron_expression": "@daily"}, 200)],
    ("api.change_jobs", "POST"): [
        ("", {"action": action, "filter": wanted, **dry}, 200 if dry else 202)
        for action in ("retry", "cancel", "delete")
        for wanted in ({"type": "secret-type"}, {"tag": "secret-tag"}, {"error_class": "secret-class"})
        for dry in ({"dry_run": True}, {})
    ],
    ("api.get_bulk", "GET"): [("{bulk}", None, 404)],
    ("api.stop_bulk", "POST"): [("{bulk}", None, 404)],
    ("api.list_queues", "GET"): [("", None, 200)],
    ("api.get_queue", "GET"): [("secret-queue", None, 200)],
    ("api.put_queue", "PUT"): [("secret-queue", {"concurrency": 1}, 200)],
    ("api.change_queue", "PATCH"): [("secret-queue", {"concurrency": 2}, 200)],
    ("api.pause_queue", "POST"): [("secret-queue", {"reason": "none"}, 200)],
    ("api.resume_queue", "POST"): [("secret-queue", None, 200)],
    ("api.purge_queue", "POST"): [("secret-queue", {"name": "secret-queue"}, 200)],
    ("api.rotate_signing_secret", "POST"): [("", None, 200)],
    ("api.test_callback", "POST"): [("", {"payload": {}, "callback_url": HOOK}, 200)],
}  # fmt: skip
OWNED = {
    "jobs": "client_id = :owner",
    "executions": "job_id IN (SELECT id FROM jobs WHERE client_id = :owner)",
    "cron_entries": "client_id = :owner",
    "cron_occurrences": "cron_entry_id IN (SELECT id FROM cron_entries WHERE client_id = :owner)",
    "queues": "client_id = :owner",
    "bulk_operations": "client_id = :owner",
    "clients": "id = :owner",
}


def owned(conn: Connection, owner_id: int) -> dict[str, list[str]]:
    """Everything the owner has, as text."""
    return {
        table: sorted(conn.execute(text(f"SELECT t::text FROM {table} t WHERE {mine}"), {"owner": owner_id}).scalars())
        for table, mine in OWNED.items()
    }


def test_every_other_route_neither_shows_nor_changes_what_is_anothers(
    app: Flask, owner: ApiCalls, stranger: ApiCalls, db_conn: Connection
) -> None:
    fields = {"type": "secret-type", "payload": "secret-payload", "queue": "secret-queue", "tags": ["secret-tag"]}
    job_id = owner.submitted(idempotency_key="secret-key", **fields)
    db_conn.execute(
        text(
            "UPDATE jobs SET status = 'dead', attempts = 5, finished_at = punctual_now(), last_error_class = 'secret-class',"
            " last_error = 'secret-error'"
        )
    )
    entry = {"cron_expression": "@daily", "job_template": {**TEMPLATE, **fields}, "name": "secret-name"}
    known = {
        "job": job_id,
        "entry": owner.post("/v1/cron-jobs", entry).get_json()["id"],
        "bulk": owner.post("/v1/jobs/bulk", {"action": "retry", "filter": {"type": "none"}}).get_json()["id"],
    }
    # It waits, with filters that match the owner's job, so that a stop would change it.
    db_conn.execute(text("UPDATE bulk_operations SET state = 'waiting', finished_at = NULL"))
    waiting = [str(owner.submitted(delay_seconds=1000, **fields)) for _ in range(3)]
    owner_id = db_conn.execute(text("SELECT client_id FROM jobs LIMIT 1")).scalar_one()
    before = owned(db_conn, owner_id)

    left = dict(WITHOUT_A_ROW)
    for rule in app.url_map.iter_rules():
        if not rule.rule.startswith("/v1") or re.search(r"\b(?:cron_)?job_id>", rule.rule):
            continue
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
            for address, body, status in left.pop((rule.endpoint, method)):
                address = address.format(**known)
                path = re.sub(r"<[^>]+>", address, rule.rule) if "<" in rule.rule else rule.rule + address
                answer = stranger.call(method, path, json=body)
                shown = answer.get_data(as_text=True)
                assert answer.status_code in (status, 201, 204), (method, path, shown)
                asked = f"{path} {body}"
                for word in (
                    "secret-type",
                    "secret-payload",
                    "secret-tag",
                    "secret-error",
                    "secret-class",
                    job_id,
                    *waiting,
                ):
                    assert word in asked or word not in shown, (method, path, shown)
                if '"matched"' in shown:
                    assert answer.get_json()["matched"] == 0, (path, body)
    assert left == {}, "routes that are gone"
    db_conn.execute(
        text("UPDATE bulk_operations SET state = 'stopped', finished_at = punctual_now() WHERE client_id = :owner"),
        {"owner": owner_id},
    )
    with app.app_context():
        leader = Bulk(punctual())
        while leader.run_once() == 0:
            pass
    after = owned(db_conn, owner_id)
    del before["bulk_operations"], after["bulk_operations"]
    assert after == before


def test_lists_hold_ones_own_rows_only(owner: ApiCalls, stranger: ApiCalls, db_conn: Connection) -> None:
    owner.submitted()
    db_conn.execute(text("UPDATE jobs SET status = 'dead', attempts = 5, finished_at = punctual_now()"))
    entry = {"cron_expression": "@daily", "job_template": TEMPLATE, "name": "n"}
    assert owner.post("/v1/cron-jobs", entry).status_code == 201

    for path in ("/v1/jobs", "/v1/jobs?status=dead", "/v1/dead-letters", "/v1/cron-jobs"):
        assert len(owner.get(path).get_json()) == 1
        assert stranger.get(path).get_json() == []
    # A name is taken for its client alone.
    assert stranger.post("/v1/cron-jobs", entry).status_code == 201
