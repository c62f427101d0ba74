"""/v1/cron-jobs: creating, reading, changing, deleting and previewing schedules."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, text

from app.cron import parse
from app.instants import format_instant
from tests.api_calls import HOOK, ApiCalls, error

TEMPLATE = {"type": "report", "payload": {"n": 1.0}, "callback_url": HOOK, "max_attempts": 3}
PLAIN = {"cron_expression": "30 2 * * *", "job_template": TEMPLATE}


@pytest.fixture
def api(client: FlaskClient, api_key: str) -> ApiCalls:
    return ApiCalls(client, api_key)


def create(api: ApiCalls, **fields: Any) -> int:
    answer = api.post("/v1/cron-jobs", {**PLAIN, **fields})
    assert answer.status_code == 201, answer.get_data(as_text=True)
    entry_id: int = answer.get_json()["id"]
    return entry_id


def read(api: ApiCalls, entry_id: int) -> dict[str, Any]:
    entry: dict[str, Any] = api.get(f"/v1/cron-jobs/{entry_id}").get_json()
    return entry


def move(conn: Connection, entry_id: int, instant: str) -> None:
    """Sets the next time by hand, so that it shows whether it was computed anew."""
    conn.execute(text("UPDATE cron_entries SET next_run_at = :at WHERE id = :id"), {"at": instant, "id": entry_id})


def test_an_entry_is_created_and_read_back(api: ApiCalls, db_conn: Connection) -> None:
    answer = api.post("/v1/cron-jobs", {**PLAIN, "timezone": "Europe/Berlin", "name": "nightly"})

    assert answer.status_code == 201
    entry_id = answer.get_json()["id"]
    assert answer.get_json() == {"id": entry_id}
    assert isinstance(entry_id, int)
    assert answer.headers["Location"] == f"/v1/cron-jobs/{entry_id}"
    entry = read(api, entry_id)
    assert {name: entry[name] for name in ("id", "name", "cron_expression", "timezone", "job_template", "enabled")} == {
        "id": entry_id,
        "name": "nightly",
        "cron_expression": "30 2 * * *",
        "timezone": "Europe/Berlin",
        "job_template": TEMPLATE,
        "enabled": True,
    }
    assert entry["last_run_at"] is entry["disabled_reason"] is None
    now = db_conn.execute(text("SELECT punctual_now()")).scalar_one()
    following = parse("30 2 * * *", "Europe/Berlin").next_after(now)
    assert following is not None
    assert entry["next_run_at"] == format_instant(following)


def test_what_is_left_out_has_its_default(api: ApiCalls) -> None:
    template = {"type": "t", "payload": None, "callback_url": HOOK}
    entry = read(api, create(api, job_template=template))

    assert (entry["timezone"], entry["name"]) == ("UTC", None)
    assert entry["job_template"] == {**template, "max_attempts": 5}


def test_the_payload_is_kept_as_the_text_it_was_sent_as(api: ApiCalls, db_conn: Connection) -> None:
    payload = '{ "b":1E2 ,"a":[ 1.50 ] }'
    body = f'{{"cron_expression": "@daily", "job_template": {{"type": "t", "payload": {payload}, "callback_url": "{HOOK}"}}}}'
    answer = api.send(body, path="/v1/cron-jobs")

    assert answer.status_code == 201
    assert db_conn.execute(text("SELECT payload FROM cron_entries")).scalar_one() == payload
    assert f'"payload":{payload}' in api.get(answer.headers["Location"]).get_data(as_text=True)


@pytest.mark.parametrize(
    ("expression", "timezone"),
    [
        ("0 0 31 2 *", "UTC"), ("0 0 31 4,6,9,11 *", "UTC"), ("10 0 1-5 * 2#2", "UTC"), ("0 0 12 * * *", "UTC"),
        ("0 0 12 * * ? *", "UTC"), ("R R * * *", "UTC"), ("H H * * *", "UTC"), ("*/0 * * * *", "UTC"), ("*/61 * * * *", "UTC"),
        ("60 * * * *", "UTC"), ("", "UTC"), ("0" + ",0" * 150 + " * * * *", "UTC"), ("0 0 * * *", "America"),
        ("0 0 * * *", "../../etc/passwd"), ("0 0 * * *", "Europe/Berlin\u0000"), ("0 0 * * *", "Mars/Phobos"),
        ("0 0 * * *", "localtime"), ("0 0 * * *", "right/Europe/Berlin"), ("0 0 * * *", "a" * 300), ("0 0 * * *", "UTC+3"),
        ("0 0 * * *", ""), ("0 0 * * *", "europe/berlin"), (5, "UTC"), (None, "UTC"), ("0 0 * * *", None),
    ],
    ids=lambda value: str(value)[:20],
)  # fmt: skip
def test_a_schedule_that_cannot_be_used_is_refused(api: ApiCalls, expression: object, timezone: object) -> None:
    entry_id = create(api)
    given = {"cron_expression": expression, "timezone": timezone}

    for answer in (
        api.post("/v1/cron-jobs", {**PLAIN, **given}),
        api.patch(f"/v1/cron-jobs/{entry_id}", given),
        api.post("/v1/cron-jobs/preview", given),
    ):
        told = error(answer, 400)
        assert {row["field"] for row in told["details"]} <= {"cron_expression", "timezone"}
    assert len(api.get("/v1/cron-jobs").get_json()) == 1


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"cron": "* * * * *"}, "cron"),
        ({"job_template": None}, "job_template"),
        ({"job_template": {}}, "job_template.type"),
        ({"job_template": {**TEMPLATE, "run_at": "2030-01-01T00:00:00Z"}}, "job_template.run_at"),
        ({"job_template": {**TEMPLATE, "callback_url": "http://10.0.0.1/"}}, "job_template.callback_url"),
        ({"job_template": {**TEMPLATE, "max_attempts": "3"}}, "job_template.max_attempts"),
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "x" * 129}, "name"),
        # 128 characters that the composed form makes 256 of.
        ({"name": "\u0958" * 128}, "name"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_bad_field_is_named(api: ApiCalls, fields: dict[str, Any], named: str) -> None:
    entry_id = create(api)

    for answer in (api.post("/v1/cron-jobs", {**PLAIN, **fields}), api.patch(f"/v1/cron-jobs/{entry_id}", fields)):
        assert error(answer, 400)["details"][0]["field"] == named


def test_a_name_is_taken_once_however_it_is_spelt(api: ApiCalls) -> None:
    create(api, name="caf\u00e9")
    other = create(api, name="tea")

    for answer in (
        api.post("/v1/cron-jobs", {**PLAIN, "name": "cafe\u0301"}),
        api.patch(f"/v1/cron-jobs/{other}", {"name": "caf\u00e9"}),
    ):
        assert "name" in error(answer, 409)["message"]
    assert api.patch(f"/v1/cron-jobs/{other}", {"name": "tea"}).status_code == 204
    create(api)
    create(api)


def test_lists_come_newest_first_in_pages(api: ApiCalls) -> None:
    ids = [create(api) for _ in range(3)]

    assert [entry["id"] for entry in api.get("/v1/cron-jobs").get_json()] == ids[::-1]
    first = api.get("/v1/cron-jobs?limit=2")
    assert [entry["id"] for entry in first.get_json()] == ids[:0:-1]
    following = api.get(first.headers["Link"].split(">")[0][1:])
    assert [entry["id"] for entry in following.get_json()] == ids[:1]
    assert "Link" not in following.headers
    for query in ("limit=0", "limit=x", "offset=-1", "cursor=x", "cursor=-1", f"cursor={2**63}", "name=x"):
        error(api.get(f"/v1/cron-jobs?{query}"), 400)


def test_another_expression_or_zone_computes_the_next_time_anew(api: ApiCalls, db_conn: Connection) -> None:
    entry_id = create(api)
    far = "2044-04-04T04:04:00Z"

    for fields in ({"name": "n"}, {"job_template": TEMPLATE}, {"enabled": True}, {}, {"cron_expression": "30 2 * * *"}):
        move(db_conn, entry_id, far)
        assert api.patch(f"/v1/cron-jobs/{entry_id}", fields).status_code == 204
        assert read(api, entry_id)["next_run_at"] == far, fields
    for fields in ({"cron_expression": "0 4 * * *"}, {"timezone": "Asia/Tokyo"}):
        move(db_conn, entry_id, far)
        answer = api.patch(f"/v1/cron-jobs/{entry_id}", fields)
        assert (answer.status_code, answer.data) == (204, b"")
        entry = read(api, entry_id)
        assert entry["next_run_at"] < far, fields
        following = parse(entry["cron_expression"], entry["timezone"]).next_after(datetime.now(UTC))
        assert following is not None
        assert entry["next_run_at"] == format_instant(following)


def test_any_field_can_be_changed(api: ApiCalls) -> None:
    entry_id = create(api)
    template = {"type": "u", "payload": [1], "callback_url": f"{HOOK}/2"}
    fields = {"cron_expression": "@hourly", "timezone": "Asia/Kolkata", "name": "other", "enabled": False}

    assert api.patch(f"/v1/cron-jobs/{entry_id}", {**fields, "job_template": template}).status_code == 204

    entry = read(api, entry_id)
    assert {name: entry[name] for name in fields} == fields
    assert entry["job_template"] == {**template, "max_attempts": 5}


def test_enabling_goes_on_from_now_and_clears_the_reason(api: ApiCalls, db_conn: Connection) -> None:
    entry_id = create(api)
    assert api.patch(f"/v1/cron-jobs/{entry_id}", {"enabled": False}).status_code == 204
    assert (read(api, entry_id)["enabled"], read(api, entry_id)["next_run_at"]) == (False, None)
    db_conn.execute(
        text("UPDATE cron_entries SET disabled_reason = 'no such zone', next_run_at = '2001-01-01T00:00:00Z'")
    )
    assert read(api, entry_id)["disabled_reason"] == "no such zone"

    assert api.patch(f"/v1/cron-jobs/{entry_id}", {"enabled": True}).status_code == 204

    entry = read(api, entry_id)
    assert (entry["enabled"], entry["disabled_reason"]) == (True, None)
    assert entry["next_run_at"] > format_instant(datetime.now(UTC))


def test_a_deleted_entry_is_gone_and_its_jobs_stay(api: ApiCalls, db_conn: Connection) -> None:
    entry_id = create(api)
    job_id = api.submitted(delay_seconds=100)
    db_conn.execute(text("UPDATE jobs SET cron_entry_id = :id"), {"id": entry_id})
    assert api.get(f"/v1/jobs/{job_id}").get_json()["cron_job_id"] == entry_id

    assert api.delete(f"/v1/cron-jobs/{entry_id}").status_code == 204

    assert api.get(f"/v1/jobs/{job_id}").get_json()["cron_job_id"] is None
    for answer in (
        api.get(f"/v1/cron-jobs/{entry_id}"),
        api.delete(f"/v1/cron-jobs/{entry_id}"),
        api.patch(f"/v1/cron-jobs/{entry_id}", {"job_template": {**TEMPLATE, "callback_url": "http://10.0.0.1/"}}),
    ):
        error(answer, 404)


@pytest.mark.parametrize("entry_id", ["x", "-1", "1.0", "1e3", str(2**63), "9" * 5000, "١", "%00"])
def test_a_malformed_or_enormous_id_is_a_400(api: ApiCalls, entry_id: str) -> None:
    error(api.get(f"/v1/cron-jobs/{entry_id}"), 400)
    error(api.patch(f"/v1/cron-jobs/{entry_id}", {}), 400)
    error(api.delete(f"/v1/cron-jobs/{entry_id}"), 400)


def test_an_unknown_id_is_a_404(api: ApiCalls) -> None:
    for entry_id in ("0", str(2**63 - 1)):
        error(api.get(f"/v1/cron-jobs/{entry_id}"), 404)


def test_a_preview_says_when_and_in_words(api: ApiCalls) -> None:
    answer = api.post(
        "/v1/cron-jobs/preview",
        {
            "cron_expression": "30 2 * * *",
            "timezone": "Europe/Berlin",
            "after": "2026-03-28T00:00:00+01:00",
            "count": 3,
        },
    )

    assert answer.status_code == 200
    assert answer.get_json() == {
        # On the 29th, 02:30 is skipped: it runs at the first instant after the jump.
        "next": ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
        "description": "At 02:30 AM",
    }
    soon = api.post("/v1/cron-jobs/preview", {"cron_expression": "* * * * *", "count": 100}).get_json()["next"]
    assert len(soon) == 100
    assert soon == sorted(soon)
    assert soon[0] > format_instant(datetime.now(UTC))
    end = {"cron_expression": "* * * * *", "after": "9999-12-31T23:59:59Z"}
    assert api.post("/v1/cron-jobs/preview", end).get_json()["next"] == []


@pytest.mark.parametrize(
    "fields",
    [
        {"count": 0},
        {"count": 101},
        {"count": "5"},
        {"count": True},
        {"after": "2026-01-01"},
        {"job_template": TEMPLATE},
    ],
)
def test_a_preview_that_asks_too_much_is_refused(api: ApiCalls, fields: dict[str, Any]) -> None:
    error(api.post("/v1/cron-jobs/preview", {"cron_expression": "@daily", **fields}), 400)
