"""Idempotency keys: one job a key and client, whatever is repeated and however often."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from flask.testing import FlaskClient
from sqlalchemy import Connection, text

from tests.api_calls import HOOK, ApiCalls, error
from tests.conftest import make_api_key
from tests.processes import Processes


@pytest.fixture
def api(client: FlaskClient, api_key: str) -> ApiCalls:
    return ApiCalls(client, api_key)


def test_a_key_makes_one_job(api: ApiCalls) -> None:
    first = api.submit(idempotency_key="k", payload={"a": 1, "b": [1.0, "x"]})
    again = api.submit(idempotency_key="k", payload={"b": [1, "x"], "a": 1e0}, run_at="2031-01-01T00:00:00Z")

    assert (first.status_code, again.status_code) == (201, 200)
    assert again.get_json() == first.get_json()
    assert "Location" not in again.headers


@pytest.mark.parametrize(
    "other",
    [
        {"type": "u"}, {"payload": {"a": 2}}, {"payload": {"a": "1"}}, {"payload": {"a": True}}, {"payload": {"a": 1, "b": None}},
        {"max_attempts": 6}, {"callback_url": "http://127.0.0.1:9/other"},
    ],
    ids=str,
)  # fmt: skip
def test_a_key_used_for_another_request_is_a_conflict(api: ApiCalls, other: dict[str, object]) -> None:
    body = {"type": "t", "payload": {"a": 1}, "callback_url": HOOK, "idempotency_key": "k"}
    assert api.post("/v1/jobs", body).status_code == 201

    assert error(api.post("/v1/jobs", {**body, **other}), 409)["code"] == "IDEMPOTENCY_KEY_CONFLICT"
    assert api.post("/v1/jobs", {**body, "max_attempts": 5}).status_code == 200


def test_of_fifty_submissions_at_once_one_makes_the_job(
    processes: Processes, api_key: str, db_conn: Connection
) -> None:
    url = processes.web(WEB_WORKERS="2")
    body = {"type": "t", "payload": {}, "callback_url": HOOK, "idempotency_key": "fifty"}

    def submit(_: int) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {api_key}"}
        answer = requests.post(f"{url}/v1/jobs", json=body, headers=headers, timeout=10)
        return answer.status_code, answer.json()["id"]

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(submit, range(50)))

    assert sorted(status for status, _ in answers) == [200] * 49 + [201]
    assert len({job_id for _, job_id in answers}) == 1
    assert db_conn.execute(text("SELECT count(*) FROM jobs")).scalar_one() == 1


def test_a_refused_submission_does_not_burn_its_key(api: ApiCalls) -> None:
    error(api.submit(idempotency_key="k", callback_url="http://10.0.0.1/"), 400)

    assert api.submit(idempotency_key="k").status_code == 201


def test_the_key_may_be_a_header(api: ApiCalls) -> None:
    def submit(key: str, **fields: object) -> int:
        body = {"type": "t", "payload": {}, "callback_url": HOOK, **fields}
        return api.post("/v1/jobs", body, headers={"Idempotency-Key": key}).status_code

    assert submit("k") == 201
    assert submit("k", idempotency_key="k") == 200
    assert submit("other", idempotency_key="k") == 400
    assert submit("") == 400
    assert submit("k" * 256) == 400
    assert submit("ü".encode().decode("latin-1")) == 201
    assert api.submit(idempotency_key="ü").status_code == 200


def test_two_clients_may_use_one_key(api: ApiCalls, client: FlaskClient, db_conn: Connection) -> None:
    stranger = ApiCalls(client, make_api_key(db_conn, "stranger"))

    assert api.submit(idempotency_key="k").status_code == 201
    assert stranger.submit(idempotency_key="k", type="u").status_code == 201
