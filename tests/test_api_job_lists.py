"""GET /v1/jobs: pages, limits, offsets, cursors, and queries that are refused."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, text

from tests.api_calls import ApiCalls, error

FIELDS = {
    "id", "type", "queue", "priority", "tags", "expires_at", "method", "callback_url", "status", "run_at", "scheduled_for", "attempts", "max_attempts", "last_error",
    "last_status_code", "cron_job_id", "idempotency_key", "queue_generation", "created_at", "updated_at", "started_at",
    "finished_at",
}  # fmt: skip


@pytest.fixture
def api(client: FlaskClient, api_key: str) -> ApiCalls:
    return ApiCalls(client, api_key)


def test_lists_come_newest_first_without_payloads(api: ApiCalls) -> None:
    ids = [api.submitted(payload=number) for number in range(3)]

    shown = api.get("/v1/jobs").get_json()

    assert [job["id"] for job in shown] == ids[::-1]
    assert all(set(job) == FIELDS for job in shown)


def test_pages_follow_the_link(api: ApiCalls) -> None:
    ids = [api.submitted(delay_seconds=100) for _ in range(5)]
    seen: list[str] = []
    address: str | None = "/v1/jobs?limit=2&status=scheduled&offset=1"

    while address is not None:
        answer = api.get(address)
        seen += [job["id"] for job in answer.get_json()]
        link = answer.headers.get("Link")
        assert link is None or (link.startswith("<http://localhost/v1/jobs?") and link.endswith('>; rel="next"'))
        address = None if link is None else link[1:].partition(">")[0]
        # What is submitted while somebody turns pages moves nothing.
        api.submitted(delay_seconds=100)

    assert seen == ids[::-1][1:]


def test_lists_take_a_status_and_an_offset(api: ApiCalls) -> None:
    waiting, due = api.submitted(delay_seconds=100), api.submitted()

    assert [job["id"] for job in api.get("/v1/jobs?status=scheduled").get_json()] == [waiting]
    assert [job["id"] for job in api.get("/v1/jobs?offset=1").get_json()] == [waiting]
    assert [job["id"] for job in api.get(f"/v1/jobs?cursor={due}").get_json()] == [waiting]
    assert api.get("/v1/jobs?status=dead").get_json() == []
    assert api.get(f"/v1/jobs?offset={2**63 - 1}").get_json() == []


def test_a_limit_is_20_by_default_and_100_at_most(api: ApiCalls, db_conn: Connection) -> None:
    api.submitted()
    db_conn.execute(
        text(
            "INSERT INTO jobs (id, client_id, queue_id, type, payload, payload_bytes, callback_url, callback_host, status, run_at,"
            " scheduled_for, max_attempts) SELECT gen_random_uuid(), client_id, queue_id, type, payload, payload_bytes, callback_url,"
            " callback_host, status, run_at, scheduled_for, max_attempts FROM jobs, generate_series(1, 120)"
        )
    )

    assert len(api.get("/v1/jobs").get_json()) == 20
    assert len(api.get("/v1/jobs?limit=100").get_json()) == 100
    assert len(api.get("/v1/jobs?limit=101").get_json()) == 100
    assert len(api.get(f"/v1/jobs?limit={'9' * 5000}").get_json()) == 100


@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=-1", "limit=ten", "limit=", "limit=1.5", "limit=1e1", "limit=١", "limit=%00", "limit=1&limit=2",
        "offset=-1", "offset=x", f"offset={2**63}", "offset=99999999999999999999999999", "cursor=x", "cursor=",
        "status=lost", "status=", "status=Dead", "state=dead",
    ],
)  # fmt: skip
def test_a_bad_query_is_a_400(api: ApiCalls, query: str) -> None:
    error(api.get(f"/v1/jobs?{query}"), 400)
