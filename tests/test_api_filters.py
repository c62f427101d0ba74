"""GET /v1/jobs with filters: each finds what it names, and together they narrow."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, text

from tests.api_calls import HOOK, ApiCalls, error


@pytest.fixture
def api(client: FlaskClient, api_key: str) -> ApiCalls:
    return ApiCalls(client, api_key)


@pytest.fixture
def jobs(api: ApiCalls, db_conn: Connection) -> dict[str, str]:
    """One job of each kind, by the name it has below."""
    entry = {"cron_expression": "@daily", "job_template": {"type": "cron", "payload": 1, "callback_url": HOOK}}
    entry_id = api.post("/v1/cron-jobs", entry).get_json()["id"]
    made = {
        "plain": api.submitted(),
        "queued": api.submitted(queue="mail", tags=["a", "b"]),
        "typed": api.submitted(type="invoice", tags=["b"], idempotency_key="k 1"),
        "elsewhere": api.submitted(callback_url="http://127.0.0.1:8/hook"),
        "later": api.submitted(run_at="2030-01-01T00:00:00Z"),
        "cron": api.post(f"/v1/cron-jobs/{entry_id}/trigger").get_json()["id"],
    }
    db_conn.execute(
        text(
            "UPDATE jobs SET status = 'dead', attempts = 5, last_error_class = 'timeout', finished_at = punctual_now() WHERE id = :id"
        ),
        {"id": made["elsewhere"]},
    )
    db_conn.execute(text("UPDATE jobs SET created_at = '2026-01-01T00:00:00Z' WHERE id = :id"), {"id": made["plain"]})
    return {**made, "entry": str(entry_id)}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("status=dead", ["elsewhere"]),
        ("status=dead,scheduled", ["later", "elsewhere"]),
        ("status=dead&status=scheduled", ["later", "elsewhere"]),
        ("status=dead,running&status=scheduled", ["later", "elsewhere"]),
        ("status=scheduled&type=invoice", []),
        ("type=invoice", ["typed"]),
        ("queue=mail", ["queued"]),
        ("queue=nothing", []),
        ("tag=b", ["typed", "queued"]),
        ("tag=b&queue=mail", ["queued"]),
        ("callback_host=127.0.0.1:8", ["elsewhere"]),
        ("callback_host=http://127.0.0.1:8", ["elsewhere"]),
        ("error_class=timeout", ["elsewhere"]),
        ("run_at_from=2029-01-01T00:00:00Z", ["later"]),
        ("run_at_to=2029-01-01T00:00:00Z&tag=a", ["queued"]),
        ("idempotency_key=k%201", ["typed"]),
        ("type=t&limit=1&offset=1", ["elsewhere"]),
    ],
)
def test_a_filter_finds_what_it_names(api: ApiCalls, jobs: dict[str, str], query: str, names: list[str]) -> None:
    found = [job["id"] for job in api.get(f"/v1/jobs?{query}").get_json()]
    assert found == [jobs[name] for name in names]


def test_a_cron_jobs_jobs_are_found(api: ApiCalls, jobs: dict[str, str]) -> None:
    found = api.get(f"/v1/jobs?cron_job_id={jobs['entry']}").get_json()
    assert [job["id"] for job in found] == [jobs["cron"]]


def test_times_of_creation_are_asked_of_postgresql(api: ApiCalls, jobs: dict[str, str]) -> None:
    now = api.get("/v1/jobs?created_from=2026-06-01T00:00:00Z").get_json()
    assert jobs["plain"] not in [job["id"] for job in now]
    assert len(now) == 5


def test_the_link_keeps_the_filter(api: ApiCalls, jobs: dict[str, str]) -> None:
    first = api.get("/v1/jobs?tag=b&limit=1")
    following = first.headers["Link"].partition("<http://localhost")[2].partition(">")[0]
    assert "tag=b" in following
    assert [job["id"] for job in api.get(following).get_json()] == [jobs["queued"]]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("status=gone", "status"),
        ("status=dead,", "status"),
        ("type=", "type"),
        ("type=a&type=b", "type"),
        ("tag=a%00b", "tag"),
        ("cron_job_id=x", "cron_job_id"),
        ("created_from=yesterday", "created_from"),
        ("tag=a&offset=10001", "offset"),
        ("colour=red", "colour"),
    ],
)
def test_what_cannot_be_looked_for_is_named(api: ApiCalls, query: str, field: str) -> None:
    assert error(api.get(f"/v1/jobs?{query}"), 400)["details"][0]["field"] == field
