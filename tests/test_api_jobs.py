"""/v1/jobs: submitting, reading, cancelling and retrying."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, text

from app.api import callback
from app.api.lookup import Lookups
from app.instants import parse_instant
from tests.api_calls import HOOK, ApiCalls, error
from tests.conftest import make_api_key

NIL = "00000000-0000-0000-0000-000000000000"


FIELDS = {
    "id", "type", "queue", "priority", "tags", "expires_at", "method", "callback_url", "status", "run_at", "scheduled_for", "attempts", "max_attempts", "last_error",
    "last_status_code", "cron_job_id", "idempotency_key", "queue_generation", "created_at", "updated_at", "started_at",
    "finished_at",
}  # fmt: skip

DETAIL_FIELDS = {
    "headers", "payload", "body", "content_type", "timeout_seconds", "success_statuses", "retry", "on_success_url",
    "on_failure_url", "follows_job_id", "planned_attempts",
}  # fmt: skip


@pytest.fixture
def api(client: FlaskClient, api_key: str) -> ApiCalls:
    return ApiCalls(client, api_key)


def kill(conn: Connection, job_id: str) -> None:
    """The job exhausted its attempts, as the recorder would have stored it."""
    conn.execute(
        text(
            "UPDATE jobs SET status = 'dead', attempts = max_attempts, finished_at = punctual_now(), last_error = 'no',"
            " last_status_code = 500, last_error_class = 'status' WHERE id = :id"
        ),
        {"id": job_id},
    )


def test_a_job_is_accepted_and_read_back(api: ApiCalls) -> None:
    answer = api.submit(type="email.send", payload={"to": "ada", "n": 1.50})

    assert answer.status_code == 201
    submitted = answer.get_json()
    assert set(submitted) == {"id", "status", "run_at"}
    assert all(isinstance(value, str) for value in submitted.values())
    assert submitted["status"] == "pending"
    assert answer.headers["Location"] == f"/v1/jobs/{submitted['id']}"
    assert UUID(submitted["id"]).version == 7
    job = api.get(answer.headers["Location"]).get_json()
    assert set(job) == FIELDS | DETAIL_FIELDS
    assert job["payload"] == {"to": "ada", "n": 1.5}
    assert (job["type"], job["callback_url"], job["status"]) == ("email.send", HOOK, "pending")
    assert (job["attempts"], job["max_attempts"], job["queue_generation"]) == (0, 5, 0)
    assert job["run_at"] == job["scheduled_for"] == submitted["run_at"]
    assert job["started_at"] is job["finished_at"] is job["last_error"] is job["cron_job_id"] is None


@pytest.mark.parametrize(
    "payload", ["1.0", "1E2", '{ "b":1 ,"a":[ 1.50 ] }', "null", '"\\u0041\\/"', '"ü"', '{"a":"x\\u0000y"}']
)
def test_the_payload_is_kept_as_the_text_it_was_sent_as(api: ApiCalls, db_conn: Connection, payload: str) -> None:
    answer = api.send(f'{{"type": "t", "payload":  {payload} , "callback_url": "{HOOK}"}}'.encode())

    assert answer.status_code == 201
    assert db_conn.execute(text("SELECT payload FROM jobs")).scalar_one() == payload
    shown = api.get(f"/v1/jobs/{answer.get_json()['id']}").get_data(as_text=True)
    assert f'"payload":{payload}' in shown


def test_a_later_job_is_scheduled(api: ApiCalls) -> None:
    answer = api.submit(run_at="2030-01-01T02:00:00.5+02:00").get_json()
    assert (answer["status"], answer["run_at"]) == ("scheduled", "2030-01-01T00:00:00.500000Z")

    before = datetime.now(UTC)
    delayed = api.submit(delay_seconds=0.25).get_json()
    assert delayed["status"] == "scheduled"
    assert abs(parse_instant(delayed["run_at"]) - before - timedelta(seconds=0.25)) < timedelta(seconds=5)

    assert api.submit(run_at="1999-12-31T23:59:59Z").get_json()["status"] == "pending"
    assert api.submit(run_at="9999-12-31T23:59:59Z").get_json()["run_at"] == "9999-12-31T23:59:59Z"
    assert api.submit(run_at="0001-01-01T00:00:00Z").get_json()["run_at"] == "0001-01-01T00:00:00Z"


REFUSED_FIELDS = [
    ({"max_attempts": 0}, "max_attempts"),
    ({"max_attempts": True}, "max_attempts"),
    ({"max_attempts": "3"}, "max_attempts"),
    ({"max_attempts": 101}, "max_attempts"),
    ({"max_attempts": 2.5}, "max_attempts"),
    ({"max_attempts": 10**400}, "max_attempts"),
    ({"max_attempts": None}, "max_attempts"),
    ({"max_retrys": 3}, "max_retrys"),
    ({"type": ""}, "type"),
    ({"type": "x" * 129}, "type"),
    ({"type": "a\u0000b"}, "type"),
    ({"type": "a\nb"}, "type"),
    ({"type": "a\n"}, "type"),
    ({"type": "a\u0085b"}, "type"),
    ({"type": "a\u2028b"}, "type"),
    ({"type": 5}, "type"),
    ({"type": None}, "type"),
    ({"callback_url": None}, "callback_url"),
    ({"callback_url": ""}, "callback_url"),
    ({"callback_url": ["http://127.0.0.1/"]}, "callback_url"),
    ({"callback_url": "http://10.0.0.1/"}, "callback_url"),
    ({"callback_url": "ftp://127.0.0.1/"}, "callback_url"),
    ({"run_at": "2026-12-01T10:00:00"}, "run_at"),
    ({"run_at": "2026-02-29T00:00:00Z"}, "run_at"),
    ({"run_at": "9999-12-31T23:59:59-12:00"}, "run_at"),
    ({"run_at": 1764583200}, "run_at"),
    ({"run_at": ""}, "run_at"),
    ({"run_at": None}, "run_at"),
    ({"delay_seconds": -1}, "delay_seconds"),
    ({"delay_seconds": 1000000000000000000}, "delay_seconds"),
    ({"delay_seconds": 10**400}, "delay_seconds"),
    ({"delay_seconds": 31_536_001}, "delay_seconds"),
    ({"delay_seconds": True}, "delay_seconds"),
    ({"delay_seconds": "1"}, "delay_seconds"),
    ({"delay_seconds": None}, "delay_seconds"),
    ({"delay_seconds": 1, "run_at": "2030-01-01T00:00:00Z"}, "run_at"),
    ({"idempotency_key": "k" * 256}, "idempotency_key"),
    ({"idempotency_key": ""}, "idempotency_key"),
    ({"idempotency_key": "a\u0000"}, "idempotency_key"),
    ({"idempotency_key": None}, "idempotency_key"),
]


@pytest.mark.parametrize(("fields", "named"), REFUSED_FIELDS, ids=lambda value: str(value)[:40])
def test_a_bad_field_is_named_and_nothing_is_stored(
    api: ApiCalls, db_conn: Connection, fields: dict[str, object], named: str
) -> None:
    told = error(api.submit(**fields), 400)

    assert told["code"] == "invalid_request"
    assert named in told["message"]
    assert db_conn.execute(text("SELECT count(*) FROM jobs")).scalar_one() == 0


@pytest.mark.parametrize("missing", ["type", "payload", "callback_url"])
def test_a_missing_field_is_named(api: ApiCalls, missing: str) -> None:
    body = {"type": "t", "payload": None, "callback_url": HOOK}
    del body[missing]

    [detail] = error(api.post("/v1/jobs", body), 400)["details"]
    assert detail["field"] == missing
    assert detail["message"].startswith("is required")


@pytest.mark.parametrize(
    "job_id", ["x", "1", "019ad0c2", "019ad0c27c4e7a3b9d510a4f3c2b1e60", "%00", f"{NIL}0", f"{{{NIL}}}"]
)
def test_a_malformed_id_is_a_400(api: ApiCalls, job_id: str) -> None:
    error(api.get(f"/v1/jobs/{job_id}"), 400)
    error(api.get(f"/v1/jobs/{job_id}/executions"), 400)
    error(api.delete(f"/v1/jobs/{job_id}"), 400)
    error(api.post(f"/v1/jobs/{job_id}/retry"), 400)


@pytest.mark.parametrize(
    "job_id", [NIL, "F47AC10B-58CC-4372-A567-0E02B2C3D479", "ffffffff-ffff-ffff-ffff-ffffffffffff"]
)
def test_an_unknown_job_is_a_404(api: ApiCalls, job_id: str) -> None:
    error(api.get(f"/v1/jobs/{job_id}"), 404)
    error(api.get(f"/v1/jobs/{job_id}/executions"), 404)
    error(api.delete(f"/v1/jobs/{job_id}"), 404)
    error(api.post(f"/v1/jobs/{job_id}/retry"), 404)


def test_an_id_may_be_in_upper_case(api: ApiCalls) -> None:
    job_id = api.submitted()

    assert api.get(f"/v1/jobs/{job_id.upper()}").get_json()["id"] == job_id


def test_a_waiting_job_can_be_cancelled_once(api: ApiCalls) -> None:
    for job_id in (api.submitted(), api.submitted(delay_seconds=100)):
        answer = api.delete(f"/v1/jobs/{job_id}")
        assert (answer.status_code, answer.data) == (204, b"")
        job = api.get(f"/v1/jobs/{job_id}").get_json()
        assert job["status"] == "cancelled"
        assert job["finished_at"]
        assert "cancelled" in error(api.delete(f"/v1/jobs/{job_id}"), 409)["message"]


def test_a_dead_job_can_be_retried(api: ApiCalls, db_conn: Connection) -> None:
    job_id = api.submitted()
    error(api.post(f"/v1/jobs/{job_id}/retry"), 409)
    kill(db_conn, job_id)
    error(api.delete(f"/v1/jobs/{job_id}"), 409)

    answer = api.post(f"/v1/jobs/{job_id}/retry")

    assert answer.status_code == 200
    job = answer.get_json()
    assert set(job) == FIELDS | DETAIL_FIELDS
    assert (job["status"], job["attempts"], job["queue_generation"], job["finished_at"]) == ("scheduled", 0, 1, None)
    error(api.post(f"/v1/jobs/{job_id}/retry"), 409)


def test_executions_come_oldest_first(api: ApiCalls, db_conn: Connection) -> None:
    job_id = api.submitted()
    assert api.get(f"/v1/jobs/{job_id}/executions").get_json() == []
    for generation, attempt, number in ((1, 1, 3), (0, 1, 1), (0, 2, 2)):
        db_conn.execute(
            text(
                "INSERT INTO executions (job_id, queue_generation, attempt, number, status, due_at, started_at, finished_at,"
                " status_code, error_class, error, timings, response_headers, response_body) VALUES (:id, :generation, :attempt,"
                " :number, 'failed', punctual_now(), punctual_now(), punctual_now(), 500, 'status', 'no', '{\"total\": 1.5}',"
                " '[[\"a\", \"b\"]]', 'body')"
            ),
            {"id": job_id, "generation": generation, "attempt": attempt, "number": number},
        )

    shown = api.get(f"/v1/jobs/{job_id}/executions").get_json()

    assert [(row["number"], row["attempt"]) for row in shown] == [(1, 1), (2, 2), (3, 1)]
    assert set(shown[0]) == {
        "number", "attempt", "status", "due_at", "started_at", "finished_at", "status_code", "error_class", "error",
        "timings", "response_headers", "response_body", "worker",
    }  # fmt: skip


def test_a_host_that_resolves_to_a_refused_address_is_refused(api: ApiCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"half.example.com": ("93.184.216.34", "10.0.0.1"), "good.example.com": ("93.184.216.34",)}
    monkeypatch.setattr(callback, "lookups", Lookups(lambda host: known.get(host, ())))

    told = error(api.submit(callback_url="https://half.example.com/hook"), 400)
    assert "callback_url" in told["message"]
    assert "10.0.0.1" not in told["message"]
    assert api.submit(callback_url="https://good.example.com/hook").status_code == 201
    assert api.submit(callback_url="https://unknown.example.com/hook").status_code == 201


def test_many_bad_fields_are_told_at_once_but_not_without_end(api: ApiCalls) -> None:
    told = error(api.post("/v1/jobs", {f"field{number}": 1 for number in range(1000)}), 400)

    assert len(told["details"]) == 20
    assert len(json.dumps(told)) < 5000


def test_cancelling_and_retrying_are_on_record_with_the_key_and_refusals_are_not(
    api: ApiCalls, db_conn: Connection, api_key: str
) -> None:
    cancelled, dead = api.submit().get_json()["id"], api.submit().get_json()["id"]
    kill(db_conn, dead)
    assert api.delete(f"/v1/jobs/{cancelled}").status_code == 204
    assert api.delete(f"/v1/jobs/{cancelled}").status_code == 409
    assert api.post(f"/v1/jobs/{dead}/retry").status_code == 200
    rows = db_conn.execute(text("SELECT actor_kind, actor, action, target_id FROM audit_log ORDER BY id")).all()
    assert [tuple(row) for row in rows] == [
        ("api_key", api_key[:11], "job.cancel", cancelled),
        ("api_key", api_key[:11], "job.retry", dead),
    ]


def test_a_job_is_accepted_though_postgresql_was_started_again(
    api: ApiCalls, client: FlaskClient, db_conn: Connection
) -> None:
    """Every pooled connection is dead, and none knows it yet."""
    assert api.submit().status_code == 201
    ours = db_conn.execute(text("SELECT pg_backend_pid()")).scalar_one()
    query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid NOT IN (:ours, pg_backend_pid())"
    db_conn.execute(text(query), {"ours": ours})
    # Another key is looked up anew.
    key = make_api_key(db_conn, "another")
    assert ApiCalls(client, key).submit().status_code == 201
