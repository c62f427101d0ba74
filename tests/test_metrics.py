"""/metrics: what it counts, who may read it, and that totals outlive the processes that counted."""

from __future__ import annotations

import os
import signal
import socket
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import requests
from flask import Flask
from flask.testing import FlaskClient
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Connection, text

from app.config import Settings
from app.database import make_engine
from app.jobs.stats import BUCKETS
from app.meters.bounded import MOST_PAIRS, BoundedPairs
from app.metrics import count_submitted
from app.metrics.collector import StoreCollector
from app.metrics.totals import OutcomeTotals
from app.redis_client import Bypass, make_redis
from app.stores import Stores
from app.stream import Stream
from tests.eventually import eventually
from tests.factories import make_queue
from tests.processes import Processes

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture(autouse=True)
def fresh(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Totals from the beginning: what one test made is gone in the next."""
    sources = app.extensions["metrics"]
    stores = StoreCollector(lambda: app.extensions["punctual"])
    monkeypatch.setattr("app.metrics.collector.KEEP_SECONDS", 0)
    monkeypatch.setitem(app.extensions, "metrics", replace(sources, stores=stores))


def parsed(words: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(words)
        for sample in family.samples
    }


def scrape(client: FlaskClient) -> Samples:
    answer = client.get("/metrics")
    assert answer.status_code == 200
    return parsed(answer.text)


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, tuple(sorted(labels.items()))]


@pytest.fixture
def client_id(db_conn: Connection) -> int:
    insert = text("INSERT INTO clients (name, signing_secret) VALUES ('demo', 'whsec_x') RETURNING id")
    made = int(db_conn.execute(insert).scalar_one())
    make_queue(db_conn, made)
    return made


def add_outcome(conn: Connection, client_id: int, outcome: str, count: int, minutes_ago: int = 0) -> None:
    conn.execute(
        text(
            "INSERT INTO minute_stats (minute, client_id, outcome, count, start_lag_buckets, callback_time_buckets) "
            "VALUES (date_trunc('minute', punctual_now()) - make_interval(mins => :ago), :client, :outcome, :count, :none, :none)"
        ),
        {"ago": minutes_ago, "client": client_id, "outcome": outcome, "count": count, "none": [0] * BUCKETS},
    )


def add_job(conn: Connection, client_id: int, status: str, run_at: datetime) -> None:
    running, finished = status == "running", status == "dead"
    conn.execute(
        text(
            "INSERT INTO jobs (id, client_id, queue_id, type, payload, payload_bytes, callback_url, callback_host, status, run_at, "
            "scheduled_for, attempts, max_attempts, worker, lease_expires_at, finished_at) VALUES (gen_random_uuid(), :client, (SELECT id FROM queues WHERE client_id = :client), "
            "'t', '{}', 2, 'http://h/', 'h', :status, :run_at, :run_at, 1, 5, "
            "CASE WHEN :running THEN gen_random_uuid() END, CASE WHEN :running THEN punctual_now() END, "
            "CASE WHEN :finished THEN punctual_now() END)"
        ),
        {"client": client_id, "status": status, "run_at": run_at, "running": running, "finished": finished},
    )


def test_submissions_count_up(client: FlaskClient) -> None:
    def total() -> float:
        samples = scrape(client)
        return samples.get(("jobs_submitted_total", (("client", "demo"), ("queue", "mail"))), 0)

    before = total()
    count_submitted("demo", "mail")
    count_submitted("demo", "mail", 3)
    count_submitted("demo", "never", 0)
    assert total() == before + 4
    assert ("jobs_submitted_total", (("client", "demo"), ("queue", "never"))) not in scrape(client)


def test_ended_attempts_are_counted_by_what_came_of_them(
    client: FlaskClient, db_conn: Connection, client_id: int
) -> None:
    counts = {"succeeded": 5, "retried": 4, "dead": 3, "lost": 2, "cancelled": 1}
    for outcome, count in counts.items():
        add_outcome(db_conn, client_id, outcome, count)
        add_outcome(db_conn, client_id, outcome, 100 * count, minutes_ago=60 * 24 * 400)
    samples = scrape(client)
    assert {outcome: value(samples, "executions_total", outcome=outcome) for outcome in counts} == {
        outcome: 101 * count for outcome, count in counts.items()
    }
    totals = [value(samples, f"jobs_{name}_total") for name in ("completed", "failed", "retried", "dead")]
    assert totals == [505, 1010, 404, 303]


def test_minutes_are_summed_once_and_the_last_ones_again(db_conn: Connection, client_id: int) -> None:
    totals = OutcomeTotals()
    add_outcome(db_conn, client_id, "succeeded", 10, minutes_ago=30)
    assert totals.read(db_conn)["succeeded"] == 10
    add_outcome(db_conn, client_id, "succeeded", 2, minutes_ago=3)
    add_outcome(db_conn, client_id, "succeeded", 1)
    assert totals.read(db_conn)["succeeded"] == 13
    assert totals.read(db_conn)["succeeded"] == 13
    # Eight minutes on, what was recent is settled.
    db_conn.execute(text("UPDATE minute_stats SET minute = minute - interval '8 minutes' WHERE count < 10"))
    later = OutcomeTotals()
    later._until = db_conn.execute(
        text("SELECT date_trunc('minute', punctual_now()) - interval '20 minutes'")
    ).scalar_one()
    later._settled["succeeded"] = 10
    assert later.read(db_conn)["succeeded"] == 13
    assert later._settled["succeeded"] == 13


def test_jobs_are_counted_by_where_they_stand(client: FlaskClient, db_conn: Connection, client_id: int) -> None:
    now = datetime.now(UTC)
    for status, run_at in (
        ("pending", now - timedelta(seconds=90)),
        ("scheduled", now - timedelta(seconds=30)),
        ("scheduled", now + timedelta(hours=1)),
        ("running", now),
        ("dead", now),
        ("dead", now),
    ):
        add_job(db_conn, client_id, status, run_at)
    samples = scrape(client)
    depth = {status: value(samples, "queue_depth", status=status) for status in ("ready", "scheduled", "running")}
    assert depth == {"ready": 2, "scheduled": 1, "running": 1}
    assert value(samples, "dead_letters") == 2
    assert 89 < value(samples, "oldest_due_job_age_seconds") < 120


def test_queues_are_told_apart(client: FlaskClient, db_conn: Connection, client_id: int) -> None:
    now = datetime.now(UTC)
    add_job(db_conn, client_id, "pending", now - timedelta(seconds=90))
    add_job(db_conn, client_id, "scheduled", now + timedelta(hours=1))
    samples, labels = scrape(client), {"client": "demo", "queue": "default"}
    assert value(samples, "queue_due_jobs", **labels) == 1
    assert 89 < value(samples, "queue_oldest_due_age_seconds", **labels) < 120


def test_no_more_than_the_first_queues_have_series(client: FlaskClient, db_conn: Connection, client_id: int) -> None:
    for number in range(MOST_PAIRS + 5):
        make_queue(db_conn, client_id, f"queue-{number:03}")
    queues = [dict(labels)["queue"] for name, labels in scrape(client) if name == "queue_due_jobs"]
    assert sorted(queues) == ["default", *(f"queue-{number:03}" for number in range(MOST_PAIRS - 1))]


def test_names_beyond_the_first_share_one_label() -> None:
    pairs = BoundedPairs(known=[("a", "kept")], most=3)
    assert [pairs.label("a", name) for name in ("1", "2", "3", "1", "kept")] == [
        ("a", "1"),
        ("a", "2"),
        ("other", "other"),
        ("a", "1"),
        ("a", "kept"),
    ]


def test_beyond_what_is_counted_an_estimate_stands_in(
    client: FlaskClient, db_conn: Connection, client_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.metrics.totals.COUNT_EXACTLY", 5)
    for _ in range(50):
        add_job(db_conn, client_id, "pending", datetime.now(UTC) - timedelta(seconds=9))
    db_conn.execute(text("ANALYZE jobs"))
    assert 5 <= value(scrape(client), "queue_depth", status="ready") <= 60


def test_an_empty_installation_has_every_number(client: FlaskClient) -> None:
    samples = scrape(client)
    zeros = (
        "jobs_completed_total",
        "jobs_failed_total",
        "oldest_due_job_age_seconds",
        "workers_alive",
        "scheduler_leading",
    )
    assert {name: value(samples, name) for name in zeros} == dict.fromkeys(zeros, 0)
    ups = ("postgresql_up", "redis_up")
    assert {name: value(samples, name) for name in ups} == dict.fromkeys(ups, 1)


def test_a_store_that_is_away_leaves_its_numbers_out(
    app: Flask, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores: Stores = app.extensions["punctual"]
    nowhere = Stream(make_redis("unix:///nowhere/redis.sock", 0.3), stores.stream.keys)
    monkeypatch.setitem(app.extensions, "punctual", Stores(stores.engine, nowhere, Bypass()))
    samples = scrape(client)
    assert (value(samples, "redis_up"), value(samples, "postgresql_up")) == (0, 1)
    assert ("ready_stream_length", ()) not in samples


def test_a_store_that_hangs_holds_a_scrape_up_for_a_moment_only(
    app: Flask, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both take connections and never answer, as stopped processes do."""
    monkeypatch.setattr("app.metrics.collector.WAIT_SECONDS", 0.5)
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(8)
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        engine = make_engine(f"postgresql+psycopg://punctual@{address}/none", 1)
        stream = Stream(make_redis(f"redis://{address}/0", 20), app.extensions["punctual"].stream.keys)
        monkeypatch.setitem(app.extensions, "punctual", Stores(engine, stream, Bypass()))
        began_at = time.monotonic()
        samples = scrape(client)
        assert time.monotonic() - began_at < 3
    assert (value(samples, "redis_up"), value(samples, "postgresql_up")) == (0, 0)
    assert not {"jobs_completed_total", "queue_depth", "queue_due_jobs"} & {name for name, _ in samples}


def test_requests_are_counted_by_rule_and_strangers_make_no_series(client: FlaskClient) -> None:
    def series() -> set[tuple[str, tuple[tuple[str, str], ...]]]:
        return {key for key in scrape(client) if key[0].startswith("flask_http_request")}

    def be_strange(number: int) -> None:
        client.get(f"/no/such/page/{number}")
        client.open(f"/strange/{number}", method=f"STRANGE{number}")
        client.open("/healthz", method=f"STRANGE{number}")

    client.get("/healthz")
    client.get("/metrics")
    be_strange(0)
    before = series()
    for number in range(1, 6):
        be_strange(number)
    assert series() == before
    rules = {dict(labels).get("url_rule") for _, labels in before if labels}
    assert {"/healthz", "none"} <= rules
    assert "STRANGE" not in {dict(labels).get("method") for _, labels in before}


def test_a_token_closes_it(app: Flask, client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(app.extensions, "settings", Settings(metrics_token="open sesame"))
    for wrong in (
        {},
        {"Authorization": "Bearer other"},
        {"Authorization": "Bearer öffne"},
        {"Authorization": "open sesame"},
    ):
        assert client.get("/metrics", headers=wrong).status_code == 401
    assert client.get("/metrics", headers={"Authorization": "bearer open sesame"}).status_code == 200


def test_openmetrics_is_given_where_it_is_asked_for(client: FlaskClient) -> None:
    answer = client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.content_type.startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


def test_totals_outlive_workers_and_gunicorn_itself(processes: Processes, api_key: str, tmp_path: Path) -> None:
    """Two web processes count together, and nothing falls when they are killed or all is started anew."""
    settings = {"WEB_WORKERS": "2", "DATA_DIR": str(tmp_path / "data")}
    job = {"type": "t", "payload": {}, "callback_url": "http://127.0.0.1:9/hook"}

    def submitted(url: str) -> float:
        found = parsed(requests.get(f"{url}/metrics", timeout=20).text)
        return value(found, "jobs_submitted_total", client="tests", queue="default")

    def submit(url: str, count: int) -> None:
        for _ in range(count):
            headers = {"Authorization": f"Bearer {api_key}"}
            assert requests.post(f"{url}/v1/jobs", json=job, headers=headers, timeout=20).status_code == 201

    url = processes.web(**settings)
    submit(url, 8)
    assert {submitted(url) for _ in range(6)} == {8}
    gunicorn = processes.children[-1]
    for worker in _children(gunicorn.pid or 0):
        os.kill(worker, signal.SIGKILL)
    eventually(lambda: len(_children(gunicorn.pid or 0)) == 2)
    before = set(_children(gunicorn.pid or 0))
    eventually(lambda: submitted(url) == 8)
    os.kill(gunicorn.pid or 0, signal.SIGHUP)
    eventually(lambda: not before & set(_children(gunicorn.pid or 0)))
    eventually(lambda: submitted(url) == 8)
    gunicorn.stop()
    url = processes.web(**settings)
    assert submitted(url) == 8
    submit(url, 2)
    assert {submitted(url) for _ in range(6)} == {10}
    assert len(list((tmp_path / "data" / "metrics").glob("counter_*.db"))) <= 3


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
