"""/v1/cron-jobs: policies, bounds, jitter, and what a change does to the next time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, text

from app.instants import format_instant, parse_instant
from tests.api_calls import HOOK, ApiCalls, error
from tests.conftest import make_api_key

pytestmark = pytest.mark.usefixtures("minute_begins")

HOUR = 3600


@pytest.fixture
def api(client: FlaskClient, api_key: str) -> ApiCalls:
    return ApiCalls(client, api_key)


def definition(**fields: Any) -> dict[str, Any]:
    template = {"type": "t", "payload": {}, "callback_url": HOOK}
    return {"cron_expression": "30 2 * * *", "job_template": template, **fields}


def created(api: ApiCalls, **fields: Any) -> str:
    """The address of a new cron job."""
    answer = api.post("/v1/cron-jobs", definition(**fields))
    assert answer.status_code == 201, answer.get_data(as_text=True)
    return str(answer.headers["Location"])


def read(api: ApiCalls, address: str) -> dict[str, Any]:
    found: dict[str, Any] = api.get(address).get_json()
    return found


def occurrences(api: ApiCalls, address: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get(f"{address}/occurrences?limit=100").get_json()
    return found


def move_back(conn: Connection, address: str, minutes: int) -> datetime:
    """The entry's next time becomes that many minutes ago, on the minute."""
    return conn.execute(
        text(
            "UPDATE cron_entries SET next_run_at = date_trunc('minute', punctual_now()) - make_interval(mins => :minutes) "
            "WHERE id = :id RETURNING next_run_at"
        ),
        {"minutes": minutes, "id": address.rpartition("/")[2]},
    ).scalar_one()  # type: ignore[no-any-return]


def test_every_field_is_kept_and_has_its_default(api: ApiCalls) -> None:
    plain = read(api, created(api))
    assert {name: plain[name] for name in ("overlap", "catch_up", "catch_up_window_seconds", "jitter_seconds")} == {
        "overlap": "skip",
        "catch_up": "one",
        "catch_up_window_seconds": HOUR,
        "jitter_seconds": 0,
    }
    assert (plain["enabled"], plain["next_due_at"]) == (True, plain["next_run_at"])
    for name in ("description", "starts_at", "ends_at", "disabled_reason", "paused_at", "pause_reason", "paused_by"):
        assert plain[name] is None
    given = {
        "description": "line one\nline two",
        "overlap": "buffer_one",
        "catch_up": "all",
        "catch_up_window_seconds": 365 * 24 * HOUR,
        "starts_at": "2030-01-01T00:00:00Z",
        "ends_at": "2031-01-01T00:00:00Z",
        "jitter_seconds": 600,
    }
    full = read(api, created(api, **given))
    assert {name: full[name] for name in given} == given
    assert full["next_run_at"] == "2030-01-01T02:30:00Z"
    late_by = parse_instant(full["next_due_at"]) - parse_instant(full["next_run_at"])
    assert timedelta(0) <= late_by < timedelta(seconds=600)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("overlap", "never"),
        ("overlap", 1),
        ("overlap", None),
        ("catch_up", "two"),
        ("catch_up", []),
        ("catch_up_window_seconds", -1),
        ("catch_up_window_seconds", 365 * 24 * HOUR + 1),
        ("catch_up_window_seconds", "60"),
        ("jitter_seconds", -1),
        ("jitter_seconds", 24 * HOUR + 1),
        ("jitter_seconds", 0.5),
        ("starts_at", "tomorrow"),
        ("ends_at", "2020-01-01T00:00:00Z"),
        ("description", "x" * 1001),
        ("description", "\x00"),
        ("enabled", "yes"),
        ("name", ""),
        ("name", "x" * 129),
        ("name", "a\nb"),
    ],
)
def test_a_field_out_of_bounds_is_refused_at_create_and_at_patch(api: ApiCalls, field: str, value: Any) -> None:
    assert field in error(api.post("/v1/cron-jobs", definition(**{field: value})), 400)["message"]
    address = created(api)
    assert field in error(api.patch(address, {field: value}), 400)["message"]
    assert read(api, address)["updated_at"] == read(api, address)["created_at"]


def test_bounds_the_wrong_way_round_are_refused(api: ApiCalls) -> None:
    bounds = {"starts_at": "2030-01-02T00:00:00Z", "ends_at": "2030-01-01T00:00:00Z"}
    assert "ends_at" in error(api.post("/v1/cron-jobs", definition(**bounds)), 400)["message"]
    address = created(api, starts_at=bounds["starts_at"])
    assert "ends_at" in error(api.patch(address, {"ends_at": bounds["ends_at"]}), 400)["message"]


def test_a_bound_is_itself_inside(api: ApiCalls) -> None:
    instant = "2030-01-01T02:30:00Z"
    entry = read(api, created(api, starts_at=instant, ends_at="2030-01-01T02:30:01Z"))
    assert entry["next_run_at"] == instant
    assert (
        "ends_at"
        in error(
            api.post("/v1/cron-jobs", definition(starts_at=instant[:-3] + "01Z", ends_at="2030-01-02T02:29:59Z")), 400
        )["message"]
    )


def test_a_name_is_composed_and_one_client_has_it_once(api: ApiCalls, client: FlaskClient, db_conn: Connection) -> None:
    address = created(api, name="caf\u0065\u0301")
    assert read(api, address)["name"] == "caf\u00e9"
    assert "name" in error(api.post("/v1/cron-jobs", definition(name="caf\u00e9")), 409)["message"]
    other = created(api, name="tea")
    error(api.patch(other, {"name": "cafe\u0301"}), 409)
    created(ApiCalls(client, make_api_key(db_conn, "others")), name="caf\u00e9")


def test_a_change_of_anything_but_the_schedule_leaves_the_next_time(api: ApiCalls, db_conn: Connection) -> None:
    address = created(api, cron_expression="* * * * *")
    before = move_back(db_conn, address, 2)
    for change in (
        {"name": "x"},
        {"description": "d"},
        {"overlap": "allow"},
        {"catch_up": "none"},
        {"catch_up_window_seconds": 1},
        {"jitter_seconds": 1},
        {"job_template": definition()["job_template"]},
        {"enabled": True},
        {"cron_expression": "* * * * *", "timezone": "UTC"},
        {"starts_at": "2020-01-01T00:00:00Z"},
        {"ends_at": "2999-01-01T00:00:00Z"},
    ):
        assert api.patch(address, change).status_code == 204, change
        assert read(api, address)["next_run_at"] == format_instant(before), change
    assert occurrences(api, address) == []


@pytest.mark.parametrize("change", [{"cron_expression": "15 3 * * *"}, {"timezone": "Asia/Tokyo"}])
def test_a_change_of_the_schedule_counts_anew_and_a_time_that_was_due_is_on_record(
    api: ApiCalls, db_conn: Connection, change: dict[str, str]
) -> None:
    address = created(api, cron_expression="* * * * *" if "timezone" not in change else "30 2 * * *")
    missed = move_back(db_conn, address, 0)
    assert api.patch(address, change).status_code == 204
    entry = read(api, address)
    now = datetime.now(UTC)
    assert now < parse_instant(entry["next_run_at"]) <= now + timedelta(days=1)
    (occurrence,) = occurrences(api, address)
    assert (occurrence["status"], occurrence["reason"], occurrence["job_id"]) == ("skipped", "changed", None)
    assert occurrence["nominal_at"] == format_instant(missed)


def test_bounds_that_leave_the_next_time_outside_move_it(api: ApiCalls, db_conn: Connection) -> None:
    address = created(api, cron_expression="0 0 1 * *")
    assert api.patch(address, {"starts_at": "2040-05-02T00:00:00Z"}).status_code == 204
    assert read(api, address)["next_run_at"] == "2040-06-01T00:00:00Z"
    assert api.patch(address, {"ends_at": "2040-07-01T00:00:00Z"}).status_code == 204
    assert read(api, address)["next_run_at"] == "2040-06-01T00:00:00Z"
    error(api.patch(address, {"ends_at": "2040-05-31T00:00:00Z"}), 400)
    assert api.patch(address, {"starts_at": None, "ends_at": None}).status_code == 204
    assert parse_instant(read(api, address)["next_run_at"]) < datetime.now(UTC) + timedelta(days=32)
    missed = move_back(db_conn, address, 0)
    assert api.patch(address, {"starts_at": "2040-05-02T00:00:00Z"}).status_code == 204
    assert [(o["nominal_at"], o["reason"]) for o in occurrences(api, address)] == [(format_instant(missed), "changed")]


def test_what_has_no_default_can_be_taken_away(api: ApiCalls) -> None:
    address = created(api, description="d", starts_at="2020-01-01T00:00:00Z", ends_at="2999-01-01T00:00:00Z")
    assert api.patch(address, {"description": None, "starts_at": None, "ends_at": None}).status_code == 204
    entry = read(api, address)
    assert (entry["description"], entry["starts_at"], entry["ends_at"]) == (None, None, None)


def test_a_schedule_put_right_ends_what_an_error_disabled(api: ApiCalls, db_conn: Connection) -> None:
    address = created(api)
    db_conn.execute(
        text(
            "UPDATE cron_entries SET timezone = 'Mars/Phobos', enabled = false, disabled_reason = 'no', next_run_at = NULL"
        )
    )
    assert read(api, address)["disabled_reason"] == "no"
    assert "timezone" in error(api.post(f"{address}/resume"), 400)["message"]
    assert api.post(f"{address}/pause", {"reason": "x"}).status_code == 204
    assert api.patch(address, {"description": "d"}).status_code == 204
    assert read(api, address)["enabled"] is False
    assert api.patch(address, {"timezone": "UTC"}).status_code == 204
    entry = read(api, address)
    assert (entry["enabled"], entry["disabled_reason"]) == (True, None) and entry["next_run_at"]


def test_jitter_is_the_same_each_time_and_spreads_entries(api: ApiCalls) -> None:
    addresses = [created(api, cron_expression="0 0 1 1 *", jitter_seconds=HOUR) for _ in range(40)]
    entries = [read(api, address) for address in addresses]
    offsets = [parse_instant(e["next_due_at"]) - parse_instant(e["next_run_at"]) for e in entries]
    assert all(timedelta(0) <= offset < timedelta(hours=1) for offset in offsets)
    assert len(set(offsets)) > 30
    assert min(offsets) < timedelta(minutes=20) and max(offsets) > timedelta(minutes=40)
    api.patch(addresses[0], {"jitter_seconds": 0})
    assert read(api, addresses[0])["next_due_at"] == entries[0]["next_run_at"]
    api.patch(addresses[0], {"jitter_seconds": HOUR})
    assert read(api, addresses[0])["next_due_at"] == entries[0]["next_due_at"]


def test_each_change_is_in_the_audit_log(api: ApiCalls, api_key: str, db_conn: Connection) -> None:
    address = created(api)
    api.patch(address, {"cron_expression": "* * * * *"})
    api.post(f"{address}/pause", {"reason": "r"})
    api.post(f"{address}/resume")
    api.post(f"{address}/trigger")
    api.delete(address)
    rows = db_conn.execute(text("SELECT * FROM audit_log ORDER BY id")).all()
    assert [row.action for row in rows] == [
        f"cron_entry.{action}" for action in ("create", "change", "pause", "resume", "trigger", "delete")
    ]
    assert {(row.actor_kind, row.actor, row.target_id) for row in rows} == {
        ("api_key", api_key[:11], address.rpartition("/")[2])
    }
    assert rows[1].detail == {"changed": ["expression", "next_run_at"], "expression": "* * * * *"}
