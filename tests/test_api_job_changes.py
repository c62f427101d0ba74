"""PATCH /v1/jobs/{id}, run-now, and an execution with what it sent, as a client's program sees them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, text

from app.demo_receiver import DemoReceiver
from tests.api_calls import HOOK, ApiCalls, error
from tests.processes import Processes
from tests.test_api_jobs import NIL, kill
from tests.test_end_to_end import Api, arrivals
from tests.test_end_to_end import api as running_api

LATER = "2040-01-01T00:00:00Z"
api_of_processes = running_api


@pytest.fixture
def api(client: FlaskClient, api_key: str) -> ApiCalls:
    return ApiCalls(client, api_key)


def patched(api: ApiCalls, job_id: str, **fields: Any) -> dict[str, Any]:
    answer = api.patch(f"/v1/jobs/{job_id}", fields)
    assert answer.status_code == 200, answer.get_data(as_text=True)
    job: dict[str, Any] = answer.get_json()
    assert job == api.get(f"/v1/jobs/{job_id}").get_json()
    return job


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"run_at": LATER}, {"run_at": LATER, "scheduled_for": LATER, "status": "scheduled"}),
        ({"run_at": "1999-01-01T00:00:00Z"}, {"run_at": "1999-01-01T00:00:00Z", "status": "pending"}),
        ({"payload": None}, {"payload": None, "body": None, "content_type": "application/json"}),
        ({"payload": [1.5, "x"]}, {"payload": [1.5, "x"], "content_type": "application/json"}),
        ({"body": "x"}, {"payload": None, "body": "x", "content_type": "text/plain; charset=utf-8"}),
        ({"body": "", "content_type": "a/b"}, {"payload": None, "body": "", "content_type": "a/b"}),
        ({"body": None, "method": "GET"}, {"payload": None, "body": None, "content_type": None, "method": "GET"}),
        ({"callback_url": "http://127.0.0.1:9/other"}, {"callback_url": "http://127.0.0.1:9/other"}),
        ({"method": "DELETE"}, {"method": "DELETE", "payload": {}}),
        ({"headers": {"X-A": "1", "X-B": ""}}, {"headers": {"X-A": "1", "X-B": ""}}),
        ({"max_attempts": 1}, {"max_attempts": 1, "planned_attempts": []}),
        ({"timeout_seconds": 900}, {"timeout_seconds": 900.0}),
        ({"success_statuses": [204, "3xx"]}, {"success_statuses": [204, "300-399"]}),
        ({"success_statuses": None}, {"success_statuses": ["200-299"]}),
        ({"priority": 9}, {"priority": 9}),
        ({"tags": ["a", "b", "a"]}, {"tags": ["a", "b"]}),
        ({"on_success_url": HOOK, "on_failure_url": None}, {"on_success_url": HOOK, "on_failure_url": None}),
    ],
    ids=str,
)
def test_a_field_is_changed_and_answered_with_the_job(
    api: ApiCalls, fields: dict[str, Any], shown: dict[str, Any]
) -> None:
    job_id = api.submitted(delay_seconds=3600)
    before = api.get(f"/v1/jobs/{job_id}").get_json()
    job = patched(api, job_id, **fields)
    assert {name: job[name] for name in shown} == shown
    follow_from_time = {"updated_at", "planned_attempts", "status", "scheduled_for"}
    followed_by = {"payload", "body", "content_type"} if {"payload", "body"} & fields.keys() else set()
    unasked = before.keys() - fields.keys() - follow_from_time - followed_by
    assert {name: job[name] for name in unasked} == {name: before[name] for name in unasked}


def test_a_retry_policy_is_replaced_whole(api: ApiCalls) -> None:
    job_id = api.submitted(retry={"backoff": "list", "delays": [1, 2], "give_up_after_seconds": 60})
    assert patched(api, job_id, retry={"backoff": "fixed", "base_seconds": 7, "jitter": "none"})["retry"] == {
        "backoff": "fixed", "base_seconds": 7.0, "jitter": "none", "give_up_after_seconds": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({}, "at least one field"),
        ({"run_at": None}, "run_at"),
        ({"run_at": "tomorrow"}, "run_at"),
        ({"delay_seconds": 1}, "delay_seconds"),
        ({"type": "u"}, "type"),
        ({"queue": "mail"}, "queue"),
        ({"priority": 10}, "priority"),
        ({"priority": None}, "priority"),
        ({"tags": None}, "tags"),
        ({"payload": 1, "body": "x"}, "either payload or body"),
        ({"payload": 1, "body": None}, "either payload or body"),
        ({"content_type": "a/b"}, "content_type goes with body"),
        ({"content_type": "a/b", "payload": 1}, "content_type goes with body"),
        ({"content_type": "a/b", "body": None}, "content_type goes with body"),
        ({"body": None}, "payload: is required"),
        ({"body": "a\u0000"}, "body must not hold NUL"),
        ({"headers": None}, "headers"),
        ({"headers": {"Host": "x"}}, "headers"),
        ({"method": "HEAD"}, "method"),
        ({"callback_url": "http://10.0.0.1/"}, "callback_url"),
        ({"on_failure_url": "http://10.0.0.1/"}, "on_failure_url"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": None}, "max_attempts"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"retry": {"backoff": "list"}}, "retry"),
    ],
    ids=str,
)
def test_a_bad_change_is_a_400_that_names_the_field(
    api: ApiCalls, db_conn: Connection, fields: dict[str, Any], named: str
) -> None:
    job_id = api.submitted(delay_seconds=3600)
    before = db_conn.execute(text("SELECT jobs.*::text FROM jobs")).all()
    assert named in error(api.patch(f"/v1/jobs/{job_id}", fields), 400)["message"]
    assert db_conn.execute(text("SELECT jobs.*::text FROM jobs")).all() == before
    assert db_conn.execute(text("SELECT count(*) FROM audit_log")).scalar_one() == 0


def test_what_cannot_be_changed_any_more_is_a_409_that_names_the_status(api: ApiCalls, db_conn: Connection) -> None:
    job_id = api.submitted()
    api.delete(f"/v1/jobs/{job_id}")
    assert "cancelled" in error(api.patch(f"/v1/jobs/{job_id}", {"payload": 1}), 409)["message"]
    assert "cancelled" in error(api.post(f"/v1/jobs/{job_id}/run-now"), 409)["message"]
    dead = api.submitted(max_attempts=3)
    kill(db_conn, dead)
    assert "retry" in error(api.patch(f"/v1/jobs/{dead}", {"run_at": LATER}), 409)["message"]
    assert "3 attempts" in error(api.patch(f"/v1/jobs/{dead}", {"max_attempts": 2}), 409)["message"]
    assert "dead" in error(api.post(f"/v1/jobs/{dead}/run-now"), 409)["message"]
    assert patched(api, dead, payload=2, callback_url="http://127.0.0.1:9/b")["status"] == "dead"
    error(api.patch(f"/v1/jobs/{NIL}", {"payload": 1}), 404)
    error(api.post(f"/v1/jobs/{NIL}/run-now"), 404)
    error(api.patch("/v1/jobs/x", {"payload": 1}), 400)


def test_a_job_runs_now_and_a_pending_one_is_left_as_it_is(api: ApiCalls) -> None:
    scheduled, pending = api.submitted(run_at=LATER), api.submitted()
    answer = api.post(f"/v1/jobs/{scheduled}/run-now")
    assert (answer.status_code, answer.get_json()["status"]) == (200, "scheduled")
    assert answer.get_json()["run_at"] < LATER == answer.get_json()["scheduled_for"]
    before = api.get(f"/v1/jobs/{pending}").get_json()
    answer = api.post(f"/v1/jobs/{pending}/run-now")
    assert (answer.status_code, answer.get_json()) == (200, before)


def test_changes_are_on_record_with_the_names_of_their_fields_and_no_values(api: ApiCalls, db_conn: Connection) -> None:
    job_id = api.submitted(run_at=LATER)
    patched(api, job_id, payload="hush", headers={"Authorization": "Bearer hush"})
    api.post(f"/v1/jobs/{job_id}/run-now")
    api.post(f"/v1/jobs/{api.submitted()}/run-now")
    rows = db_conn.execute(text("SELECT action, target_id, detail FROM audit_log ORDER BY id")).all()
    assert [tuple(row) for row in rows] == [
        ("job.edit", job_id, {"fields": ["headers", "payload"]}),
        ("job.run_now", job_id, {}),
    ]


# An execution with what it sent


@pytest.fixture
def fleet(api_of_processes: Api, processes: Processes) -> Iterator[Api]:
    processes.worker()
    yield api_of_processes


def test_an_execution_shows_what_was_sent_also_after_a_change(fleet: Api, receiver: DemoReceiver) -> None:
    headers = {"X-Tenant": "7", "X-Empty": "", "Authorization": "Bearer hush", "X-Api-Key": "hush"}
    url = f"{receiver.url}/hook-fail?a=[1]"
    job_id = fleet.submit(url, max_attempts=1, headers=headers, type="é ", payload={"big": 10**20})["id"]
    fleet.wait_for(job_id, "dead")
    changed = {
        "method": "PUT",
        "callback_url": f"{receiver.url}/hook",
        "body": "<é/>",
        "content_type": "application/xml",
    }
    assert fleet.call("PATCH", f"/v1/jobs/{job_id}", json={**changed, "headers": {}}).status_code == 200
    assert fleet.call("POST", f"/v1/jobs/{job_id}/retry").status_code == 200
    fleet.wait_for(job_id, "done")

    listed = fleet.executions(job_id)
    shown = [fleet.call("GET", f"/v1/jobs/{job_id}/executions/{number}").json() for number in (1, 2)]
    for arrival, row, execution in zip(arrivals(receiver, job_id), listed, shown, strict=True):
        sent = execution.pop("request")
        command = execution.pop("as_curl")
        assert execution == row
        assert (sent["method"], sent["url"]) == (arrival.method, f"{receiver.url}{arrival.path}")
        assert (sent["body"], sent["content_type"]) == (arrival.text, arrival.header("Content-Type"))
        on_the_wire = {name: value for name, value in arrival.headers.items() if name not in ("Host", "Content-Length")}
        assert sent["headers"].keys() == on_the_wire.keys()
        made_at_sending = {"webhook-timestamp", "webhook-signature"}
        for name in on_the_wire.keys() - made_at_sending:
            assert sent["headers"][name] == on_the_wire[name]
        assert {sent["headers"][name] for name in made_at_sending} == {"<made when it is sent>"}
        assert "hush" not in command and job_id in command
    assert fleet.call("GET", f"/v1/jobs/{job_id}/executions/3").status_code == 404


@pytest.mark.parametrize(
    ("number", "status"), [("0", 404), ("1", 404), (str(2**63 - 1), 404), (str(2**63), 400), ("-1", 400), ("x", 400)]
)
def test_an_unknown_number_is_a_404_and_none_a_400(api: ApiCalls, number: str, status: int) -> None:
    error(api.get(f"/v1/jobs/{api.submitted()}/executions/{number}"), status)
    error(api.get(f"/v1/jobs/{NIL}/executions/{number}"), status)
