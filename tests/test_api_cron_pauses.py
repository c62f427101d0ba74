"""Pausing and resuming a cron job: the reason, who, and what was missed meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, text

from app.instants import format_instant, parse_instant
from tests.api_calls import ApiCalls, error
from tests.shifted_time import shifted
from tests.test_api_cron_policies import created, move_back, occurrences, read

pytestmark = pytest.mark.usefixtures("minute_begins")


@pytest.fixture
def api(client: FlaskClient, api_key: str) -> ApiCalls:
    return ApiCalls(client, api_key)


def test_a_pause_keeps_its_reason_and_who(api: ApiCalls, api_key: str) -> None:
    address = created(api)
    assert api.post(f"{address}/pause", {"reason": "moving house"}).status_code == 204
    entry = read(api, address)
    assert (entry["enabled"], entry["next_run_at"], entry["next_due_at"]) == (False, None, None)
    assert (entry["pause_reason"], entry["paused_by"]) == ("moving house", api_key[:11])
    assert api.post(f"{address}/pause", {"reason": "still moving"}).status_code == 204
    again = read(api, address)
    assert (again["pause_reason"], again["paused_at"]) == ("still moving", entry["paused_at"])
    assert api.call("POST", f"{address}/pause").status_code == 204
    assert read(api, address)["pause_reason"] == "still moving"
    assert api.call("POST", f"{address}/resume").status_code == 204
    entry = read(api, address)
    assert entry["enabled"] and parse_instant(entry["next_run_at"]) > datetime.now(UTC)
    assert (entry["paused_at"], entry["pause_reason"], entry["paused_by"]) == (None, None, None)


@pytest.mark.parametrize("body", [{"reason": 1}, {"reason": None}, {"reason": "x" * 1001}, {"why": "x"}, []])
def test_a_pause_that_cannot_be_read_is_refused(api: ApiCalls, body: Any) -> None:
    address = created(api)
    error(api.post(f"{address}/pause", body), 400)
    assert read(api, address)["enabled"]


def test_what_a_pause_missed_is_on_record_and_not_caught_up(api: ApiCalls, db_conn: Connection) -> None:
    address = created(api, cron_expression="* * * * *", catch_up="all", overlap="allow")
    first = parse_instant(read(api, address)["next_run_at"])
    api.post(f"{address}/pause", {"reason": "noise"})
    with shifted(db_conn, 150 * 60):
        assert api.post(f"{address}/resume").status_code == 204
        now = db_conn.execute(text("SELECT punctual_now()")).scalar_one()
        rows = occurrences(api, address)
        rows += api.get(f"{address}/occurrences?limit=100&offset=100").get_json()
        assert parse_instant(read(api, address)["next_run_at"]) - now <= timedelta(minutes=1)
    assert {(row["status"], row["reason"], row["detail"]) for row in rows} == {("skipped", "paused", "noise")}
    assert len(rows) == 101
    assert sum(row["count"] for row in rows) in (150, 151)
    assert (rows[-1]["nominal_at"], rows[-1]["count"] > 1) == (format_instant(first), True)
    assert db_conn.execute(text("SELECT count(*) FROM jobs")).scalar_one() == 0


def test_a_pause_of_a_fortnight_is_settled_in_steps(api: ApiCalls, db_conn: Connection) -> None:
    address = created(api, cron_expression="* * * * *")
    api.post(f"{address}/pause")
    missed_from = move_back(db_conn, address, 14 * 24 * 60)
    assert api.post(f"{address}/resume").status_code == 204
    rows = occurrences(api, address) + api.get(f"{address}/occurrences?limit=100&offset=100").get_json()
    assert sum(row["count"] for row in rows) in (14 * 24 * 60 + 1, 14 * 24 * 60 + 2)
    assert rows[-1]["nominal_at"] == format_instant(missed_from)
    assert len(rows) < 110
    covered = sorted((row["nominal_at"], row["through_at"] or row["nominal_at"]) for row in rows)
    for (_, through), (following, _) in pairwise(covered):
        assert parse_instant(following) - parse_instant(through) == timedelta(minutes=1)


def test_patching_enabled_pauses_and_resumes(api: ApiCalls, db_conn: Connection) -> None:
    address = created(api, cron_expression="* * * * *")
    assert api.patch(address, {"enabled": False}).status_code == 204
    entry = read(api, address)
    assert (entry["enabled"], entry["pause_reason"]) == (False, None) and entry["paused_at"]
    move_back(db_conn, address, 1)
    assert api.patch(address, {"enabled": True}).status_code == 204
    assert {row["reason"] for row in occurrences(api, address)} == {"paused"}
    assert read(api, address)["paused_at"] is None


def test_another_schedule_while_paused_settles_what_was_missed_and_stays_paused(
    api: ApiCalls, db_conn: Connection
) -> None:
    address = created(api, cron_expression="* * * * *")
    api.post(f"{address}/pause")
    move_back(db_conn, address, 2)
    assert api.patch(address, {"cron_expression": "0 0 1 1 *"}).status_code == 204
    assert [row["reason"] for row in occurrences(api, address)] == ["paused"] * 3
    assert read(api, address)["enabled"] is False
    api.post(f"{address}/resume")
    assert len(occurrences(api, address)) == 3
    assert read(api, address)["next_run_at"].endswith("-01-01T00:00:00Z")
