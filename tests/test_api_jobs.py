"""/v1/jobs: submitting, reading, cancelling and retrying."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Connection, text

from app.api import callback
from app.api.lookup import Lookups
from app.instants import format_instant, parse_instant
from tests.api_calls import HOOK, ApiCalls, error

NIL = "00000000-0000-0000-0000-000000000000"
FIELDS = {
    "id", "type", "callback_url", "status", "run_at", "scheduled_for", "attempts", "max_attempts", "last_error",
    "last_status_code", "cron_job_id", "idempotency_key", "queue_generation", "created_at", "updated_at", "started_at",
    "finished_at",
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
    assert set(job) == FIELDS | {"payload"}
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

    assert error(api.post("/v1/jobs", body), 400)["details"] == [{"field": missing, "message": "is required"}]


WHOLE = '{"type": "t", "payload": %s, "callback_url": "http://127.0.0.1:9/hook"}'


@pytest.mark.parametrize(
    "body",
    [
        "null", "[]", "{", "", '{"a":1} x', WHOLE % "NaN", WHOLE % "1e400", WHOLE % ("[" * 500 + "]" * 500),
        WHOLE % ("9" * 4301), WHOLE % '{"a":1,"a":1}', WHOLE % '"\\ud800"', WHOLE.replace('"t"', '"\\ud800"') % "1",
        '{"type":"t","payload":{},"callback_url":"http://127.0.0.1:9/","callback_url":"http://127.0.0.1/"}',
        '"text"', "5", "true",
    ],
    ids=lambda body: body[:30],
)  # fmt: skip
def test_a_body_that_is_no_strict_json_object_is_refused(api: ApiCalls, body: str) -> None:
    error(api.send(body), 400)


@pytest.mark.parametrize("payload", ['{"a": "\\ud83d\\ude00"}', '[1, "two", null]', "0.25", "false", '""'])
def test_any_json_value_is_a_payload(api: ApiCalls, payload: str) -> None:
    assert api.send(WHOLE % payload).status_code == 201


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", None, "application/x-www-form-urlencoded", "application/jsonp", "application/json; charset=utf-16"],
)
def test_another_content_type_is_a_415(api: ApiCalls, content_type: str | None) -> None:
    assert error(api.send(WHOLE % "1", content_type), 415)["code"] == "unsupported_media_type"


@pytest.mark.parametrize("content_type", ["application/json; charset=UTF-8", "Application/JSON"])
def test_the_content_type_may_be_written_in_full(api: ApiCalls, content_type: str) -> None:
    assert api.send(WHOLE % "1", content_type).status_code == 201


def test_a_compressed_body_is_a_415(api: ApiCalls) -> None:
    answer = api.call("POST", "/v1/jobs", json={}, headers={"Content-Encoding": "gzip"})
    error(answer, 415)


def body_of(length: int) -> bytes:
    """A good submission of exactly that many bytes."""
    frame = WHOLE % '""'
    return frame.replace('""', f'"{"x" * (length - len(frame))}"').encode()


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_over_a_mebibyte_is_a_413(api: ApiCalls, is_chunked: bool) -> None:
    def send(body: bytes) -> int:
        if not is_chunked:
            return api.send(body).status_code
        # As gunicorn hands on a chunked body: it ends by itself, and nothing says how long it is.
        chunks = iter([body[at : at + 65_536] for at in range(0, len(body), 65_536)])
        answer = api.call(
            "POST",
            "/v1/jobs",
            input_stream=_Chunks(chunks),
            content_type="application/json",
            environ_overrides={"wsgi.input_terminated": True, "CONTENT_LENGTH": ""},
            headers={"Transfer-Encoding": "chunked"},
        )
        if answer.status_code != 201:
            error(answer, answer.status_code)
        return answer.status_code

    assert send(body_of(1 << 20)) == 201
    assert send(body_of((1 << 20) + 1)) == 413
    assert send(body_of(3 << 20)) == 413


class _Chunks:
    """A stream that gives one chunk a read, whatever is asked for."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._left = b""

    def read(self, size: int = -1) -> bytes:
        if size is None or size < 0:
            return self._left + b"".join(self._chunks)
        if not self._left:
            self._left = next(self._chunks, b"")
        given, self._left = self._left[:size], self._left[size:]
        return given

    def close(self) -> None:
        """Nothing is held."""


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


def test_of_fifty_submissions_at_once_one_makes_the_job(app: Flask, api_key: str, db_conn: Connection) -> None:
    def submit(_: int) -> tuple[int, str]:
        answer = ApiCalls(app.test_client(), api_key).submit(idempotency_key="fifty")
        return answer.status_code, answer.get_json()["id"]

    with ThreadPoolExecutor(8) as pool:
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
            "INSERT INTO jobs (id, client_id, type, payload, payload_bytes, callback_url, callback_host, status, run_at,"
            " scheduled_for, max_attempts) SELECT gen_random_uuid(), client_id, type, payload, payload_bytes, callback_url,"
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
    assert set(job) == FIELDS | {"payload"}
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


def test_unknown_addresses_and_methods_have_the_shape_of_errors(api: ApiCalls) -> None:
    for path in ("/v1", "/v1/", "/v1/nothing", "/v1/jobs/", "/v1/jobs/a/b/c"):
        assert error(api.get(path), 404)["code"] == "not_found"
    answer = api.call("PUT", "/v1/jobs")
    assert error(answer, 405)["code"] == "method_not_allowed"
    assert {"GET", "POST"} <= set(answer.headers["Allow"].split(", "))


def test_instants_are_utc_and_have_a_fraction_only_when_there_is_one() -> None:
    assert format_instant(parse_instant("2026-12-01T11:00:00.000+01:00")) == "2026-12-01T10:00:00Z"
    assert format_instant(parse_instant("2026-12-01t10:00:00.1z")) == "2026-12-01T10:00:00.100000Z"
    # Never early: what cannot be kept is rounded up.
    assert format_instant(parse_instant("2026-12-31T23:59:59.9999991-00:00")) == "2027-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "text",
    [
        "2026-12-01", "2026-12-01 10:00:00Z", "2026-12-01T10:00Z", "2026-12-01T10:00:00+0100", "2026-12-01T10:00:00+24:00",
        "2026-12-01T24:00:00Z", "2026-12-01T10:00:60Z", "2026-12-01T10:00:00.Z", "2026-13-01T10:00:00Z", "+2026-12-01T10:00:00Z",
        "0000-01-01T00:00:00Z", "0001-01-01T00:00:00+00:01", "2026-12-01T10:00:00Z\n", "２026-12-01T10:00:00Z",
        "9999-12-31T23:59:59.9999999Z",
    ],
)  # fmt: skip
def test_other_texts_are_no_instants(text: str) -> None:
    with pytest.raises(ValueError, match="must be|does not exist|outside"):
        parse_instant(text)


def test_many_bad_fields_are_told_at_once_but_not_without_end(api: ApiCalls) -> None:
    told = error(api.post("/v1/jobs", {f"field{number}": 1 for number in range(1000)}), 400)

    assert len(told["details"]) == 20
    assert len(json.dumps(told)) < 5000
