"""The overview: its figures are those of the tables, and it says so when the machinery stands still."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from flask import Flask
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, text

from app import overview
from app.jobs.stats import BUCKETS
from tests.factories import make_client, make_entry, make_job, make_worker, now
from tests.pages import HOSTILE, Person, assert_text_only


def test_it_says_that_nobody_leads_and_no_worker_is_alive(app: Flask) -> None:
    page = Person(app, "ada", "viewer").get("/")
    assert "No scheduler leads" in page and "No worker is alive" in page


def test_the_banners_go_when_somebody_leads_and_works(app: Flask, db_conn: Connection) -> None:
    worker = make_worker(db_conn)
    db_conn.execute(
        text("UPDATE leader SET holder = :w, expires_at = punctual_now() + interval '1 minute'"), {"w": worker}
    )
    page = Person(app, "ada", "viewer").get("/")
    assert "No scheduler leads" not in page and "No worker is alive" not in page


def test_it_says_that_work_is_late(app: Flask, db_conn: Connection) -> None:
    make_job(db_conn, make_client(db_conn), "pending", run_at=now(db_conn) - timedelta(minutes=3))
    assert "Work is late" in Person(app, "ada", "viewer").get("/")


def test_it_counts_jobs_by_what_they_wait_for(app: Flask, db_conn: Connection) -> None:
    client, at = make_client(db_conn), now(db_conn)
    make_job(db_conn, client, "pending", run_at=at - timedelta(seconds=1))
    for _ in range(2):
        make_job(db_conn, client, "scheduled", run_at=at + timedelta(hours=1))
    for _ in range(3):
        make_job(db_conn, client, "dead")
    assert overview.counts(db_conn) == {"due": 1, "later": 2, "running": 0, "dead": 3}


def test_a_period_adds_up_outcomes_by_step_without_gaps(app: Flask, db_conn: Connection) -> None:
    client, at = make_client(db_conn), now(db_conn)
    minute = at.replace(second=0, microsecond=0)
    for back, outcome, count in ((0, "succeeded", 5), (1, "retried", 2), (1, "succeeded", 1), (90, "succeeded", 7)):
        _count(db_conn, client, minute - timedelta(minutes=back), outcome, count)
    hour = overview.period(db_conn, at, timedelta(hours=1), timedelta(minutes=1))
    assert len(hour.points) == 60
    assert hour.points[-1] == (minute, {"succeeded": 5})
    assert hour.points[-2][1] == {"retried": 2, "succeeded": 1}
    assert (hour.ended, hour.success_rate) == (8, 0.75)
    day = overview.period(db_conn, at, timedelta(hours=24), timedelta(minutes=15))
    assert (len(day.points), day.ended) == (96, 15)


@given(st.lists(st.integers(0, 10**6), min_size=BUCKETS, max_size=BUCKETS))
def test_percentiles_are_in_order_and_inside_a_bucket_that_counts(counts: list[int]) -> None:
    found = overview.percentiles(counts)
    if not sum(counts):
        assert found == overview.Percentiles(None, None, None)
    else:
        assert found.p50 is not None and found.p95 is not None and found.p99 is not None
        assert 0 <= found.p50 <= found.p95 <= found.p99


@pytest.mark.parametrize("period", ["hour", "day", "nonsense"])
def test_it_shows_what_is_next_and_which_receivers_fail_as_text(app: Flask, db_conn: Connection, period: str) -> None:
    client = make_client(db_conn)
    for hostile in HOSTILE:
        make_entry(db_conn, client, name=hostile, next_run_at=datetime.now(UTC) + timedelta(minutes=5))
        make_job(db_conn, client, "dead", callback_host=hostile, last_error=hostile)
    page = Person(app, "ada", "viewer").get(f"/?period={period}")
    assert_text_only(page)
    assert "Every minute" in page


def _count(conn: Connection, client: int, minute: datetime, outcome: str, count: int) -> None:
    zeros = [0] * BUCKETS
    conn.execute(
        text("INSERT INTO minute_stats VALUES (:minute, :client, :outcome, :count, :zeros, :zeros)"),
        {"minute": minute, "client": client, "outcome": outcome, "count": count, "zeros": zeros},
    )
