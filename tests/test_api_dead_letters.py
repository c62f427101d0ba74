"""GET /v1/dead-letters: the dead jobs, newest first, in pages."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, text

from tests.api_calls import ApiCalls, error


@pytest.fixture
def api(client: FlaskClient, api_key: str) -> ApiCalls:
    return ApiCalls(client, api_key)


def test_the_dead_are_listed_newest_first_and_leave_with_a_retry(api: ApiCalls, db_conn: Connection) -> None:
    ids = [api.submitted(payload="secret") for _ in range(3)]
    assert api.get("/v1/dead-letters").get_json() == []
    db_conn.execute(
        text(
            "UPDATE jobs SET status = 'dead', attempts = max_attempts, finished_at = punctual_now(), last_error = 'no'"
        )
    )
    api.submitted()

    shown = api.get("/v1/dead-letters").get_json()
    assert [job["id"] for job in shown] == ids[::-1]
    assert {job["status"] for job in shown} == {"dead"}
    assert {job["last_error"] for job in shown} == {"no"}
    assert all("payload" not in job for job in shown)

    assert api.post(f"/v1/jobs/{ids[1]}/retry").status_code == 200
    assert [job["id"] for job in api.get("/v1/dead-letters").get_json()] == [ids[2], ids[0]]

    first = api.get("/v1/dead-letters?limit=1")
    assert [job["id"] for job in first.get_json()] == [ids[2]]
    following = api.get(first.headers["Link"].split(">")[0][1:])
    assert [job["id"] for job in following.get_json()] == [ids[0]]
    assert "Link" not in following.headers
    assert [job["id"] for job in api.get("/v1/dead-letters?offset=1").get_json()] == [ids[0]]


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "offset=-1", "cursor=5", "status=dead"])
def test_a_bad_query_is_a_400(api: ApiCalls, query: str) -> None:
    error(api.get(f"/v1/dead-letters?{query}"), 400)
