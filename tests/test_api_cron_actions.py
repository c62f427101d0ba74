"""/v1/cron-jobs: run now, backfill, and what became of each time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine, text

from app.instants import format_instant, parse_instant
from app.jobs.fire import due_entries, fire_due
from tests.api_calls import ApiCalls, error
from tests.conftest import make_api_key
from tests.test_api_cron_policies import created, move_back, occurrences, read

pytestmark = pytest.mark.usefixtures("minute_begins")


@pytest.fixture
def api(client: FlaskClient, api_key: str) -> ApiCalls:
    return ApiCalls(client, api_key)


@pytest.fixture
def stranger(client: FlaskClient, db_conn: Connection) -> ApiCalls:
    return ApiCalls(client, make_api_key(db_conn, "strangers"))


def fire(engine: Engine) -> None:
    with engine.begin() as conn:
        fire_due(conn, [entry_id for _, entry_id in due_entries(conn, None, 100)])


def test_run_now_makes_a_job_and_leaves_the_next_time(api: ApiCalls) -> None:
    address = created(api, overlap="skip")
    before = read(api, address)
    ids = set()
    for _ in range(2):
        answer = api.post(f"{address}/trigger")
        assert (answer.status_code, set(answer.get_json())) == (201, {"id"})
        assert answer.headers["Location"] == f"/v1/jobs/{answer.get_json()['id']}"
        ids.add(answer.get_json()["id"])
    assert len(ids) == 2
    job = api.get(answer.headers["Location"]).get_json()
    assert (job["status"], job["cron_job_id"], job["type"]) == ("pending", before["id"], "t")
    after = read(api, address)
    assert (after["next_run_at"], after["updated_at"]) == (before["next_run_at"], before["updated_at"])
    assert after["last_run_at"] == job["run_at"]
    assert occurrences(api, address) == []


def test_what_was_run_by_hand_counts_as_the_last_job(api: ApiCalls, db_conn: Connection, engine: Engine) -> None:
    address = created(api, cron_expression="* * * * *", overlap="skip")
    api.post(f"{address}/trigger")
    move_back(db_conn, address, 0)
    fire(engine)
    assert [(row["status"], row["reason"]) for row in occurrences(api, address)] == [("skipped", "overlap")]


def test_a_paused_entry_can_be_run_now(api: ApiCalls) -> None:
    address = created(api, enabled=False)
    assert read(api, address)["paused_at"] is not None
    assert api.post(f"{address}/trigger").status_code == 201
    assert read(api, address)["enabled"] is False


@pytest.mark.parametrize("call", ["trigger", "pause", "resume", "backfill", "occurrences"])
def test_another_clients_entry_is_not_there(api: ApiCalls, stranger: ApiCalls, call: str) -> None:
    address = created(api)
    body = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"} if call == "backfill" else None
    for path in (address, "/v1/cron-jobs/9999999"):
        asked = stranger.get(f"{path}/{call}") if call == "occurrences" else stranger.post(f"{path}/{call}", body)
        error(asked, 404)
    error(stranger.get("/v1/cron-jobs/x/occurrences"), 400)


class TestBackfill:
    def body(self, conn: Connection, minutes: int, **fields: Any) -> dict[str, Any]:
        now = conn.execute(text("SELECT date_trunc('minute', punctual_now())")).scalar_one()
        return {"from": format_instant(now - timedelta(minutes=minutes - 1)), "to": format_instant(now), **fields}

    def test_it_counts_first_and_then_makes_a_job_for_each_time(self, api: ApiCalls, db_conn: Connection) -> None:
        address = created(api, cron_expression="* * * * *", jitter_seconds=0)
        body = self.body(db_conn, 5)
        counted = api.post(f"{address}/backfill", {**body, "dry_run": True})
        assert (counted.status_code, counted.get_json()) == (200, {"count": 5})
        assert occurrences(api, address) == [] and api.get("/v1/jobs").get_json() == []
        assert api.post(f"{address}/backfill", body).get_json() == {"count": 5}
        rows = occurrences(api, address)
        assert [row["status"] for row in rows] == ["fired"] * 5
        assert (rows[-1]["nominal_at"], rows[0]["nominal_at"]) == (body["from"], body["to"])
        jobs = {job["id"]: job for job in api.get("/v1/jobs").get_json()}
        assert {row["job_id"]: row["nominal_at"] for row in rows} == {
            j["id"]: j["scheduled_for"] for j in jobs.values()
        }
        assert all(job["status"] == "pending" and job["run_at"] > body["to"] for job in jobs.values())
        assert api.post(f"{address}/backfill", body).get_json() == {"count": 0}
        assert len(api.get("/v1/jobs").get_json()) == 5
        assert read(api, address)["last_run_at"] is None

    def test_a_time_that_was_filled_in_is_not_fired_again(
        self, api: ApiCalls, db_conn: Connection, engine: Engine
    ) -> None:
        address = created(api, cron_expression="* * * * *", overlap="allow", catch_up="all")
        move_back(db_conn, address, 4)
        assert api.post(f"{address}/backfill", self.body(db_conn, 3)).get_json() == {"count": 3}
        fire(engine)
        rows = occurrences(api, address)
        assert [row["status"] for row in rows] == ["fired"] * 5 and len({row["job_id"] for row in rows}) == 5
        assert len(api.get("/v1/jobs").get_json()) == 5

    def test_what_was_skipped_becomes_fired(self, api: ApiCalls, db_conn: Connection, engine: Engine) -> None:
        address = created(api, cron_expression="* * * * *", overlap="allow", catch_up="none")
        move_back(db_conn, address, 3)
        fire(engine)
        assert [row["status"] for row in occurrences(api, address)] == ["fired", "skipped", "skipped", "skipped"]
        assert api.post(f"{address}/backfill", self.body(db_conn, 3)).get_json() == {"count": 2}
        rows = occurrences(api, address)
        assert [(row["status"], row["reason"]) for row in rows] == [("fired", None)] * 3 + [("skipped", "missed")]

    def test_a_row_for_many_times_loses_what_is_filled_in(
        self, api: ApiCalls, db_conn: Connection, engine: Engine
    ) -> None:
        address = created(api, cron_expression="* * * * *", overlap="allow", catch_up="none")
        first = move_back(db_conn, address, 200)
        fire(engine)

        def skipped() -> tuple[int, int]:
            rows = [
                row
                for page in (0, 100, 200)
                for row in api.get(f"{address}/occurrences?limit=100&offset={page}").get_json()
            ]
            return sum(row["count"] for row in rows if row["status"] == "skipped"), sum(
                row["status"] == "fired" for row in rows
            )

        assert skipped() == (200, 1)
        for begin, end, made in ((5, 9, 5), (0, 10, 6), (0, 120, 110), (0, 200, 79), (0, 200, 0)):
            span = {
                "from": format_instant(first + timedelta(minutes=begin)),
                "to": format_instant(first + timedelta(minutes=end)),
            }
            before = skipped()
            assert api.post(f"{address}/backfill", span).get_json() == {"count": made}
            assert skipped() == (before[0] - made, before[1] + made)

    def test_a_thousand_at_most(self, api: ApiCalls, db_conn: Connection) -> None:
        address = created(api, cron_expression="* * * * *")
        for minutes in (1001, 200_000):
            for dry_run in (True, False):
                told = error(api.post(f"{address}/backfill", self.body(db_conn, minutes, dry_run=dry_run)), 400)
                assert "1,000" in told["message"] or "10,000" in told["message"]
        assert api.post(f"{address}/backfill", self.body(db_conn, 1000)).get_json() == {"count": 1000}

    def test_bounds_and_jitter_hold(self, api: ApiCalls, db_conn: Connection) -> None:
        body = self.body(db_conn, 10)
        address = created(
            api, cron_expression="* * * * *", starts_at=format_instant(parse_instant(body["to"]) - timedelta(minutes=3))
        )
        assert api.post(f"{address}/backfill", {**body, "dry_run": True}).get_json() == {"count": 4}
        db_conn.execute(text("UPDATE cron_entries SET jitter_seconds = 240, offset_ms = 210000"))
        assert api.post(f"{address}/backfill", {**body, "dry_run": True}).get_json()["count"] <= 1

    @pytest.mark.parametrize(
        ("span", "field"),
        [
            ({"from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z"}, "from"),
            ({"from": "2026-01-01T00:00:00Z", "to": "2999-01-01T00:00:00Z"}, "to"),
            ({"from": "2026-01-01T00:00:00Z"}, "to"),
            ({"from": "yesterday", "to": "2026-01-01T00:00:00Z"}, "from"),
            ({"from": "2026-01-01T00:00:00Z", "to": None}, "to"),
            ({"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z", "dry_run": "yes"}, "dry_run"),
        ],
    )
    def test_a_span_that_cannot_be_read_is_refused(self, api: ApiCalls, span: Any, field: str) -> None:
        assert field in error(api.post(f"{created(api)}/backfill", span), 400)["message"]

    def test_the_first_instant_there_is_does_no_harm(self, api: ApiCalls) -> None:
        span = {"from": "0001-01-01T00:00:00Z", "to": "0001-01-03T00:00:00Z", "dry_run": True}
        assert api.post(f"{created(api)}/backfill", span).status_code == 200


class TestOccurrences:
    def test_they_come_newest_first_in_pages(self, api: ApiCalls, db_conn: Connection, engine: Engine) -> None:
        address = created(api, cron_expression="* * * * *", overlap="allow", catch_up="all")
        move_back(db_conn, address, 24)
        fire(engine)
        seen: list[dict[str, Any]] = []
        following: str | None = f"{address}/occurrences?limit=10"
        while following:
            answer = api.get(following)
            seen += answer.get_json()
            link = answer.headers.get("Link")
            following = link[1 : link.index(">")].removeprefix("http://localhost") if link else None
        assert len(seen) == 25
        assert [row["nominal_at"] for row in seen] == sorted({row["nominal_at"] for row in seen}, reverse=True)
        assert set(seen[0]) == {
            "nominal_at", "due_at", "status", "reason", "detail", "job_id", "through_at", "count", "recorded_at",
        }  # fmt: skip
        assert len(api.get(f"{address}/occurrences").get_json()) == 20
        assert api.get(f"{address}/occurrences?offset=24").get_json() == seen[24:]

    @pytest.mark.parametrize("query", ["limit=0", "offset=-1", "cursor=yesterday", "cursor=1", "what=1"])
    def test_a_query_that_cannot_be_read_is_refused(self, api: ApiCalls, query: str) -> None:
        error(api.get(f"{created(api)}/occurrences?{query}"), 400)

    def test_nominal_and_actual_time_are_both_there(self, api: ApiCalls, db_conn: Connection, engine: Engine) -> None:
        address = created(api, cron_expression="* * * * *", overlap="allow", jitter_seconds=30)
        db_conn.execute(text("UPDATE cron_entries SET offset_ms = 29500"))
        nominal = move_back(db_conn, address, 1)
        fire(engine)
        row = occurrences(api, address)[-1]
        due_at = format_instant(nominal + timedelta(seconds=29.5))
        assert (row["nominal_at"], row["due_at"]) == (format_instant(nominal), due_at)
        job = api.get(f"/v1/jobs/{row['job_id']}").get_json()
        assert job["run_at"] == job["scheduled_for"] == due_at
