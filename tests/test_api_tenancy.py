"""A client sees only what is its own: another's job or cron entry is a 404 on each route, and in no list."""

from __future__ import annotations

import re
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Connection, text

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
