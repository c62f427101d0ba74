"""PUT /v1/cron-jobs/by-name/{name}: creates, replaces, and changes nothing when nothing is new."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Connection, text

from tests.api_calls import ApiCalls, error
from tests.conftest import make_api_key
from tests.test_api_cron_policies import definition, occurrences, read


@pytest.fixture
def api(client: FlaskClient, api_key: str) -> ApiCalls:
    return ApiCalls(client, api_key)


@pytest.fixture
def stranger(client: FlaskClient, db_conn: Connection) -> ApiCalls:
    return ApiCalls(client, make_api_key(db_conn, "strangers"))


def put(api: ApiCalls, called: str, **fields: Any) -> Any:
    return api.call("PUT", f"/v1/cron-jobs/by-name/{quote(called, safe='')}", json=definition(**fields))


def test_it_creates_and_then_changes_nothing(api: ApiCalls, db_conn: Connection) -> None:
    fields = {
        "timezone": "Europe/Berlin",
        "overlap": "allow",
        "description": "d",
        "starts_at": "2026-01-01T00:00:00+01:00",
        "jitter_seconds": 60,
    }
    first = put(api, "nightly", **fields)
    assert first.status_code == 201 and set(first.get_json()) == {"id"}
    address = first.headers["Location"]
    db_conn.execute(text("UPDATE cron_entries SET next_run_at = next_run_at - interval '7 days'"))
    before = db_conn.execute(text("SELECT * FROM cron_entries")).one()
    for _ in range(10):
        answer = put(api, "nightly", **fields)
        assert (answer.status_code, answer.get_json()) == (200, first.get_json())
    assert db_conn.execute(text("SELECT * FROM cron_entries")).one() == before
    assert db_conn.execute(text("SELECT count(*) FROM audit_log")).scalar_one() == 1
    assert occurrences(api, address) == []


def test_it_replaces_the_whole_definition(api: ApiCalls) -> None:
    address = put(api, "nightly", description="d", overlap="allow", ends_at="2999-01-01T00:00:00Z").headers["Location"]
    before = read(api, address)
    assert put(api, "nightly", cron_expression="0 4 * * *").status_code == 200
    after = read(api, address)
    assert (after["description"], after["overlap"], after["ends_at"]) == (None, "skip", None)
    assert after["cron_expression"] == "0 4 * * *" and after["next_run_at"] != before["next_run_at"]
    assert put(api, "nightly", cron_expression="0 4 * * *", overlap="allow").status_code == 200
    assert read(api, address)["next_run_at"] == after["next_run_at"]


def test_a_pause_stays_unless_the_definition_says_otherwise(api: ApiCalls) -> None:
    address = put(api, "nightly").headers["Location"]
    api.post(f"{address}/pause", {"reason": "r"})
    put(api, "nightly")
    assert read(api, address)["pause_reason"] == "r"
    put(api, "nightly", enabled=True)
    assert read(api, address)["enabled"]
    put(api, "nightly", enabled=False)
    assert not read(api, address)["enabled"]


@pytest.mark.parametrize("name", ["a/b", "caf\u00e9 №1", "100%", "a?b#c", "x" * 128, "..", "by-name"])
def test_any_name_works_in_the_address(api: ApiCalls, name: str) -> None:
    answer = put(api, name)
    assert answer.status_code == 201, answer.get_data(as_text=True)
    assert read(api, answer.headers["Location"])["name"] == name
    assert put(api, name).status_code == 200


def test_two_spellings_are_one_name(api: ApiCalls) -> None:
    first = put(api, "cafe\u0301")
    assert (first.status_code, put(api, "caf\u00e9").get_json()) == (201, first.get_json())
    assert read(api, first.headers["Location"])["name"] == "caf\u00e9"


@pytest.mark.parametrize("name", ["x" * 129, "a\x7fb", "a\u2028b"])
def test_a_name_that_cannot_be_is_refused(api: ApiCalls, name: str) -> None:
    assert "name" in error(put(api, name), 400)["message"]


def test_another_name_in_the_body_is_refused(api: ApiCalls) -> None:
    assert "name" in error(put(api, "one", name="two"), 400)["message"]
    assert put(api, "one", name="one").status_code == 201


def test_clients_have_names_of_their_own(api: ApiCalls, stranger: ApiCalls) -> None:
    ours = put(api, "nightly").get_json()["id"]
    theirs = put(stranger, "nightly", cron_expression="0 5 * * *")
    assert theirs.status_code == 201 and theirs.get_json()["id"] != ours
    assert read(api, f"/v1/cron-jobs/{ours}")["cron_expression"] == "30 2 * * *"


def test_a_bad_definition_changes_nothing(api: ApiCalls) -> None:
    address = put(api, "nightly").headers["Location"]
    before = read(api, address)
    for fields in ({"cron_expression": "61 * * * *"}, {"timezone": "Mars/Phobos"}, {"overlap": "x"}):
        error(put(api, "nightly", **fields), 400)
    assert read(api, address) == before


def test_ten_at_once_make_one_entry(app: Flask, api_key: str, db_conn: Connection) -> None:
    def attempt(_: int) -> Any:
        with app.app_context():
            return put(ApiCalls(app.test_client(), api_key), "nightly")

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(attempt, range(10)))
    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [201]
    assert len({answer.get_json()["id"] for answer in answers}) == 1
    assert db_conn.execute(text("SELECT count(*) FROM cron_entries")).scalar_one() == 1
