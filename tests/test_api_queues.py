"""/v1/queues: limits that are set, changed and taken away, pausing, resuming, purging, and what a queue is doing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
import redis
from flask.testing import FlaskClient
from sqlalchemy import Connection, text

from app.instants import format_instant
from app.jobs.bulk import BATCH
from app.redis_keys import Keys
from tests.api_calls import ApiCalls, error
from tests.conftest import make_api_key
from tests.factories import make_job, make_queue, now

PREFIX = "punctual"
UNLIMITED = {
    "concurrency": None,
    "rate": None,
    "paused": False,
    "pause_reason": None,
    "paused_at": None,
    "paused_by": None,
    "default_max_attempts": None,
    "default_timeout_seconds": None,
    "circuit_breaker": None,
}
IDLE = {
    "waiting": 0,
    "scheduled": 0,
    "in_flight": 0,
    "rate_used": 0,
    "oldest_due_at": None,
    "oldest_age_seconds": None,
}
ALL = {
    "concurrency": 5,
    "rate": {"limit": 10, "period_seconds": 60.0},
    "default_max_attempts": 3,
    "default_timeout_seconds": 2.5,
    "circuit_breaker": True,
}


@pytest.fixture
def api(client: FlaskClient, api_key: str) -> ApiCalls:
    return ApiCalls(client, api_key)


def address(name: str) -> str:
    return f"/v1/queues/{quote(name, safe='')}"


def put(api: ApiCalls, name: str, status: int = 201, **settings: Any) -> Any:
    answer = api.call("PUT", address(name), json=settings)
    assert answer.status_code == status, answer.get_data(as_text=True)
    return answer.get_json()


def read(api: ApiCalls, name: str) -> Any:
    answer = api.get(address(name))
    assert answer.status_code == 200, answer.get_data(as_text=True)
    return answer.get_json()


def without_times(queue: Any) -> Any:
    return {name: value for name, value in queue.items() if name not in ("created_at", "updated_at")}


def audited(conn: Connection) -> list[Any]:
    return [tuple(row) for row in conn.execute(text("SELECT action, target_id, detail FROM audit_log ORDER BY id"))]


def ids(conn: Connection, name: str) -> tuple[int, int]:
    """A queue's client, and its own id."""
    return tuple(conn.execute(text("SELECT client_id, id FROM queues WHERE name = :name"), {"name": name}).one())  # type: ignore[return-value]


def in_redis(client: redis.Redis, conn: Connection, name: str) -> str | None:
    """A queue's limits as Redis knows them."""
    token = ":".join(map(str, ids(conn, name)))
    found: Any = client.hget(Keys(PREFIX).limits, token)
    return None if found is None else str(found.decode())


# Made and set


def test_a_queue_is_there_from_its_first_job_on(api: ApiCalls) -> None:
    error(api.get(address("mail")), 404)
    assert api.get("/v1/queues").get_json() == []
    api.submitted(queue="mail", delay_seconds=100)
    assert without_times(read(api, "mail")) == {"name": "mail", **UNLIMITED, **IDLE, "scheduled": 1}
    api.submitted(queue="archive")
    assert [queue["name"] for queue in api.get("/v1/queues").get_json()] == ["archive", "mail"]


def test_put_makes_a_queue_and_says_where_it_is(api: ApiCalls) -> None:
    answer = api.call("PUT", address("mail"), json=ALL)
    assert (answer.status_code, answer.headers["Location"]) == (201, "/v1/queues/mail")
    assert without_times(answer.get_json()) == {"name": "mail", **UNLIMITED, **ALL, **IDLE}
    assert answer.get_json() == read(api, "mail") == api.get("/v1/queues").get_json()[0]


def test_put_takes_back_what_it_leaves_out(api: ApiCalls) -> None:
    put(api, "mail", **ALL)
    assert without_times(put(api, "mail", 200, concurrency=7)) == {
        "name": "mail",
        **UNLIMITED,
        "concurrency": 7,
        **IDLE,
    }


def test_the_same_again_changes_nothing(api: ApiCalls, db_conn: Connection) -> None:
    put(api, "mail", **ALL)
    before = read(api, "mail")
    put(api, "mail", 200, **ALL)
    assert api.patch(address("mail"), {}).get_json() == before == read(api, "mail")
    assert len(audited(db_conn)) == 1


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"concurrency": 1}, {"concurrency": 1}),
        ({"concurrency": None}, {"concurrency": None}),
        ({"concurrency": 100_000.0}, {"concurrency": 100_000}),
        ({"rate": {"limit": 1, "period_seconds": 0.1}}, {"rate": {"limit": 1, "period_seconds": 0.1}}),
        (
            {"rate": {"limit": 1_000_000, "period_seconds": 604_800}},
            {"rate": {"limit": 1_000_000, "period_seconds": 604_800}},
        ),
        ({"rate": None}, {"rate": None}),
        ({"default_max_attempts": 100}, {"default_max_attempts": 100}),
        ({"default_max_attempts": None}, {"default_max_attempts": None}),
        ({"default_timeout_seconds": 900}, {"default_timeout_seconds": 900}),
        ({"default_timeout_seconds": None, "rate": None}, {"default_timeout_seconds": None, "rate": None}),
        ({"circuit_breaker": False}, {"circuit_breaker": False}),
        ({"circuit_breaker": None}, {"circuit_breaker": None}),
        ({"paused": False}, {}),
    ],
)
def test_patch_changes_what_is_given_alone(api: ApiCalls, change: Any, expected: Any) -> None:
    before = put(api, "mail", **ALL)
    answer = api.patch(address("mail"), change)
    assert answer.status_code == 200
    assert without_times(answer.get_json()) == {**without_times(before), **expected}
    assert answer.get_json() == read(api, "mail")


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize(
    ("field", "wanted"),
    [
        ("concurrency", {"concurrency": 0}),
        ("concurrency", {"concurrency": 100_001}),
        ("concurrency", {"concurrency": "5"}),
        ("concurrency", {"concurrency": True}),
        ("concurrency", {"concurrency": 1.5}),
        ("rate", {"rate": 5}),
        ("rate.limit", {"rate": {"period_seconds": 1}}),
        ("rate.period_seconds", {"rate": {"limit": 1}}),
        ("rate.limit", {"rate": {"limit": 0, "period_seconds": 1}}),
        ("rate.limit", {"rate": {"limit": None, "period_seconds": 1}}),
        ("rate.period_seconds", {"rate": {"limit": 1, "period_seconds": 0.05}}),
        ("rate.period_seconds", {"rate": {"limit": 1, "period_seconds": 604_801}}),
        ("rate.burst", {"rate": {"limit": 1, "period_seconds": 1, "burst": 2}}),
        ("default_max_attempts", {"default_max_attempts": 101}),
        ("default_timeout_seconds", {"default_timeout_seconds": 0}),
        ("circuit_breaker", {"circuit_breaker": "on"}),
        ("paused", {"paused": None}),
        ("paused", {"paused": "yes"}),
        ("waiting", {"waiting": 0}),
        ("body", []),
    ],
)
def test_what_a_queue_cannot_be_is_refused(api: ApiCalls, method: str, field: str, wanted: Any) -> None:
    before = put(api, "mail", **ALL)
    told = error(api.call(method, address("mail"), json=wanted), 400)
    assert field in told["message"]
    assert read(api, "mail") == before


@pytest.mark.parametrize(
    "name", ["a/b", "two words", "100%", "a?b#c", "caf\u00e9 №1", "x" * 64, "..", "a/pause/b", "purge"]
)
def test_any_name_works_in_the_address(api: ApiCalls, name: str) -> None:
    api.submitted(queue=name)
    assert put(api, name, 200, concurrency=3)["name"] == name
    assert api.post(f"{address(name)}/pause").status_code == 204
    assert (read(api, name)["paused"], read(api, name)["waiting"]) == (True, 1)
    assert api.post(f"{address(name)}/purge", {"name": name}).get_json() == {"cancelled": 1}
    assert api.post(f"{address(name)}/resume").status_code == 204
    assert not read(api, name)["paused"]
    assert len(api.get("/v1/queues").get_json()) == 1


@pytest.mark.parametrize("name", ["x" * 65, "a\x7fb", "a\u2028b", "a\tb"])
def test_a_name_that_cannot_be_is_refused(api: ApiCalls, name: str) -> None:
    for method, path in (("GET", ""), ("PUT", ""), ("PATCH", ""), ("POST", "/pause"), ("POST", "/resume")):
        body = None if method == "GET" or path == "/resume" else {}
        assert "name" in error(api.call(method, f"{address(name)}{path}", json=body), 400)["message"]


@pytest.mark.parametrize("action", ["pause", "resume", "purge"])
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_the_address_of_an_action_is_no_queues(api: ApiCalls, method: str, action: str) -> None:
    """A PUT in place of a POST must not make a queue of that name."""
    put(api, "mail")
    error(api.call(method, f"/v1/queues/mail/{action}", json={}), 405)
    assert [queue["name"] for queue in api.get("/v1/queues").get_json()] == ["mail"]


# Paused


def test_a_pause_keeps_its_reason_and_who(api: ApiCalls, api_key: str, db_conn: Connection) -> None:
    put(api, "mail")
    pause = f"{address('mail')}/pause"
    assert api.post(pause, {"reason": "their server is down"}).status_code == 204
    paused = read(api, "mail")
    assert (paused["paused"], paused["pause_reason"], paused["paused_by"]) == (
        True,
        "their server is down",
        api_key[:11],
    )
    assert paused["paused_at"]
    assert api.post(pause, {"reason": "still"}).status_code == 204
    assert api.post(pause).status_code == 204
    assert without_times(read(api, "mail")) == {**without_times(paused), "pause_reason": "still"}
    for _ in range(2):
        assert api.post(f"{address('mail')}/resume").status_code == 204
        assert without_times(read(api, "mail")) == {"name": "mail", **UNLIMITED, **IDLE}
    assert audited(db_conn) == [
        ("queue.change", "mail", {"is_new": True}),
        ("queue.pause", "mail", {"reason": "their server is down"}),
        ("queue.pause", "mail", {"reason": "still"}),
        ("queue.resume", "mail", {}),
    ]


def test_a_pause_stays_unless_it_is_said_otherwise(api: ApiCalls) -> None:
    put(api, "mail", paused=True)
    assert put(api, "mail", 200, concurrency=2)["paused"]
    assert api.patch(address("mail"), {"concurrency": 3}).get_json()["paused"]
    assert not api.patch(address("mail"), {"paused": False}).get_json()["paused"]
    assert put(api, "mail", 200, paused=True)["paused"]


@pytest.mark.parametrize("body", [{"reason": 1}, {"reason": None}, {"reason": "x" * 1001}, {"why": "x"}, []])
def test_a_pause_that_cannot_be_read_is_refused(api: ApiCalls, body: Any) -> None:
    put(api, "mail")
    error(api.post(f"{address('mail')}/pause", body), 400)
    assert not read(api, "mail")["paused"]


# At once


def test_each_change_is_in_redis_at_once(api: ApiCalls, redis_client: redis.Redis, db_conn: Connection) -> None:
    def known() -> str | None:
        return in_redis(redis_client, db_conn, "mail")

    put(api, "mail", concurrency=5)
    assert known() == "0:5:0"
    api.patch(address("mail"), {"rate": {"limit": 7, "period_seconds": 60}})
    assert known() == "0:5:1:7/60"
    api.post(f"{address('mail')}/pause")
    assert known() == "1:5:1:7/60"
    put(api, "mail", 200, paused=False)
    assert known() is None


def test_another_rate_counts_at_once(api: ApiCalls, redis_client: redis.Redis, db_conn: Connection) -> None:
    """A queue that has used its hour's rate up sleeps until then in Redis: not after its rate was raised."""
    put(api, "mail", rate={"limit": 1, "period_seconds": 3600})
    token = ":".join(map(str, ids(db_conn, "mail")))
    keys = Keys(PREFIX)
    later = (now(db_conn) + timedelta(hours=1)).timestamp() * 1000
    redis_client.zadd(keys.asleep, {token: later})
    redis_client.hset(keys.rates, token, f"0:{later:.0f}")
    api.patch(address("mail"), {"rate": {"limit": 2, "period_seconds": 3600}})
    assert redis_client.zscore(keys.asleep, token) is None
    assert redis_client.hget(keys.rates, token) is None


# What it is doing


def test_the_view_counts_what_the_queues_jobs_do(api: ApiCalls, db_conn: Connection) -> None:
    put(api, "mail", rate={"limit": 5, "period_seconds": 60})
    put(api, "other")
    client_id, queue_id = ids(db_conn, "mail")
    instant = now(db_conn)
    for status, seconds in (("pending", 90), ("scheduled", 30), ("scheduled", -600), ("running", 5), ("running", 5)):
        make_job(db_conn, client_id, status, queue_id=queue_id, run_at=instant - timedelta(seconds=seconds))
    for status in ("done", "dead", "cancelled"):
        make_job(db_conn, client_id, status, queue_id=queue_id)
    starts = [instant - timedelta(seconds=seconds) for seconds in (120, 50, 10)]
    db_conn.execute(
        text("UPDATE queues SET rate_starts = :starts, rate_counts = '{9,2,1}' WHERE id = :id"),
        {"starts": starts, "id": queue_id},
    )
    seen = read(api, "mail")
    assert (seen["waiting"], seen["scheduled"], seen["in_flight"], seen["rate_used"]) == (2, 1, 2, 3)
    assert seen["oldest_due_at"] == format_instant(instant - timedelta(seconds=90))
    assert 90 <= seen["oldest_age_seconds"] < 120
    assert {name: read(api, "other")[name] for name in IDLE} == IDLE


# Defaults


def test_jobs_that_do_not_say_have_the_queues_defaults(api: ApiCalls) -> None:
    put(api, "mail", default_max_attempts=7, default_timeout_seconds=3.5)
    job = api.get(f"/v1/jobs/{api.submitted(queue='mail')}").get_json()
    assert (job["max_attempts"], job["timeout_seconds"]) == (7, 3.5)
    job = api.get(f"/v1/jobs/{api.submitted(queue='mail', max_attempts=2, timeout_seconds=9)}").get_json()
    assert (job["max_attempts"], job["timeout_seconds"]) == (2, 9)


# Purged


def test_a_purge_cancels_what_waits_in_that_queue_alone(
    api: ApiCalls, redis_client: redis.Redis, db_conn: Connection
) -> None:
    put(api, "mail", paused=True)
    client_id, queue_id = ids(db_conn, "mail")
    waiting = [api.submitted(queue="mail"), api.submitted(queue="mail", delay_seconds=900)]
    kept = [api.submitted(), api.submitted(queue="other", delay_seconds=900)]
    kept += [str(make_job(db_conn, client_id, status, queue_id=queue_id)) for status in ("running", "done", "dead")]
    before = [api.get(f"/v1/jobs/{job_id}").get_json() for job_id in kept]
    key = Keys(PREFIX).waiting(f"{client_id}:{queue_id}")
    assert redis_client.zcard(key) == 1
    answer = api.post(f"{address('mail')}/purge", {"name": "mail"})
    assert (answer.status_code, answer.get_json()) == (200, {"cancelled": 2})
    assert {api.get(f"/v1/jobs/{job_id}").get_json()["status"] for job_id in waiting} == {"cancelled"}
    assert [api.get(f"/v1/jobs/{job_id}").get_json() for job_id in kept] == before
    assert redis_client.zcard(key) == 0
    action, name, detail = audited(db_conn)[-1]
    assert (action, name, detail["count"], sorted(detail["ids"])) == ("queue.purge", "mail", 2, sorted(waiting))
    assert api.post(f"{address('mail')}/purge", {"name": "mail"}).get_json() == {"cancelled": 0}


def test_a_purge_goes_in_batches(api: ApiCalls, db_conn: Connection) -> None:
    client_id = make_client_id(db_conn)
    queue_id = make_queue(db_conn, client_id, "mail")
    db_conn.execute(
        text(
            "INSERT INTO jobs (id, client_id, queue_id, type, payload, payload_bytes, callback_url, callback_host, status, run_at,"
            " scheduled_for, max_attempts, created_at, updated_at) SELECT gen_random_uuid(), :client, :queue, 't', '1', 1, 'u', 'h',"
            " 'pending', punctual_now(), punctual_now(), 5, punctual_now(), punctual_now() FROM generate_series(1, :many)"
        ),
        {"client": client_id, "queue": queue_id, "many": BATCH * 2 + 1},
    )
    assert api.post(f"{address('mail')}/purge", {"name": "mail"}).get_json() == {"cancelled": BATCH * 2 + 1}
    assert [detail["count"] for _, _, detail in audited(db_conn)] == [BATCH, BATCH, 1]


def make_client_id(conn: Connection) -> int:
    """Of the client whose key the tests use."""
    return int(conn.execute(text("SELECT id FROM clients WHERE name = 'tests'")).scalar_one())


@pytest.mark.parametrize("body", [None, {}, {"name": "Mail"}, {"name": ""}, {"name": "mail", "force": True}])
def test_a_purge_asks_for_the_name(api: ApiCalls, body: Any) -> None:
    job_id = api.submitted(queue="mail", delay_seconds=900)
    answer = api.post(f"{address('mail')}/purge", body)
    error(answer, 415 if body is None else 400)
    assert api.get(f"/v1/jobs/{job_id}").get_json()["status"] == "scheduled"


# Whose


def test_another_clients_queue_is_a_404_on_each_route(api: ApiCalls, client: FlaskClient, db_conn: Connection) -> None:
    stranger = ApiCalls(client, make_api_key(db_conn, "stranger"))
    job_id = api.submitted(queue="mail", delay_seconds=900)
    before = read(api, "mail")
    for method, path, body in (
        ("GET", "", None),
        ("PATCH", "", {"concurrency": 1}),
        ("POST", "/pause", {}),
        ("POST", "/resume", None),
        ("POST", "/purge", {"name": "mail"}),
    ):
        error(stranger.call(method, address("mail") + path, json=body), 404)
    assert stranger.get("/v1/queues").get_json() == []
    # A name is taken for its client alone.
    assert put(stranger, "mail", concurrency=9, paused=True)["concurrency"] == 9
    assert stranger.post(f"{address('mail')}/purge", {"name": "mail"}).get_json() == {"cancelled": 0}
    assert (read(api, "mail"), api.get(f"/v1/jobs/{job_id}").get_json()["status"]) == (before, "scheduled")
