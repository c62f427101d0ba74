"""Firing against PostgreSQL: one job an occurrence, jitter, ends, errors, counts, batches."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import redis
from sqlalchemy import Connection, Engine, text

from app.jobs import record
from app.jobs.bulk import By
from app.jobs.fire import due_entries, fire_due
from app.metrics.collector import StoreCollector
from scheduler.cron import INTERVAL_SECONDS, Cron
from tests.factories import Scene, shifted, to_record

pytestmark = pytest.mark.usefixtures("minute_begins")

BY = By("user", "ada")


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


@pytest.fixture
def cron(scene: Scene) -> Cron:
    return Cron(scene.stores)


def occurrences(scene: Scene, entry_id: int) -> list[tuple[str, str | None]]:
    """Status and reason of each, oldest first."""
    query = text("SELECT status, reason FROM cron_occurrences WHERE cron_entry_id = :id ORDER BY nominal_at")
    return [(row.status, row.reason) for row in scene.conn.execute(query, {"id": entry_id})]


def job_ids(scene: Scene) -> list[UUID]:
    return [row["id"] for row in scene.all("jobs")]


def entry(scene: Scene, entry_id: int) -> Any:
    return scene.conn.execute(text("SELECT * FROM cron_entries WHERE id = :id"), {"id": entry_id}).one()


def finish(scene: Scene, job_id: UUID, next_status: str = "done") -> None:
    """One attempt of the job, claimed and recorded."""
    worker = scene.worker()
    (claimed,) = scene.claim(job_id, worker=worker)
    record(scene.conn, [to_record(claimed, worker, next_status)])


def pass_at(scene: Scene, cron: Cron, minutes: float) -> None:
    with shifted(scene.conn, minutes * 60):
        cron.run_once()


def test_a_due_entry_makes_one_job_of_its_template_and_goes_on(scene: Scene, cron: Cron) -> None:
    entry_id = scene.entry(payload='{"n":  1.50}')
    due_at = entry(scene, entry_id).next_run_at
    assert cron.run_once() > 0
    cron.run_once()
    (job,) = scene.all("jobs")
    assert (job["status"], job["run_at"], job["scheduled_for"]) == ("pending", due_at, due_at)
    assert (job["payload"], job["payload_bytes"], job["cron_entry_id"]) == ('{"n":  1.50}', 12, entry_id)
    (occurrence,) = scene.all("cron_occurrences")
    assert (occurrence["nominal_at"], occurrence["due_at"], occurrence["job_id"]) == (due_at, due_at, job["id"])
    after = entry(scene, entry_id)
    assert (after.next_run_at, after.last_run_at) == (due_at + timedelta(minutes=1), due_at)
    assert after.last_job_id == job["id"]
    assert scene.ready() == [f"{job['id']}:0:0"]


def test_an_occurrence_on_record_makes_no_second_job(scene: Scene, cron: Cron) -> None:
    entry_id = scene.entry()
    cron.run_once()
    scene.conn.execute(text("UPDATE cron_entries SET next_run_at = next_run_at - interval '1 minute'"))
    cron.run_once()
    assert len(job_ids(scene)) == 1
    assert occurrences(scene, entry_id) == [("fired", None)]


def test_an_entry_that_another_scheduler_holds_is_passed_by(scene: Scene, cron: Cron, engine: Engine) -> None:
    held, free = scene.entry(), scene.entry()
    with engine.begin() as other:
        fire_due(other, [held])
        cron.run_once()
        assert [job["cron_entry_id"] for job in scene.all("jobs")] == [free]
        other.rollback()
    cron.run_once()
    assert sorted(job["cron_entry_id"] for job in scene.all("jobs")) == [held, free]


def test_what_was_read_as_due_and_has_been_fired_meanwhile_is_not_fired_again(
    scene: Scene, cron: Cron, engine: Engine
) -> None:
    entry_id = scene.entry()
    due = due_entries(scene.conn, None, 10)
    cron.run_once()
    with engine.begin() as conn:
        assert fire_due(conn, [entry_id for _, entry_id in due]).jobs == []
    assert len(job_ids(scene)) == 1 and occurrences(scene, entry_id) == [("fired", None)]


def test_a_clock_set_forward_and_back_fires_no_minute_twice(scene: Scene, cron: Cron) -> None:
    entry_id = scene.entry(catch_up="all", catch_up_window_seconds=86_400)
    cron.run_once()
    pass_at(scene, cron, 120)
    fired = scene.count("jobs")
    assert fired == 1 + 100 + 1
    cron.run_once()
    pass_at(scene, cron, 60)
    assert scene.count("jobs") == fired
    pass_at(scene, cron, 121)
    assert scene.count("jobs") == fired + 1
    assert len(set(job_ids(scene))) == scene.count("cron_occurrences", "status = 'fired'")
    assert entry(scene, entry_id).next_run_at > scene.now() + timedelta(minutes=120)


def test_jitter_moves_the_actual_time_and_not_the_nominal_one(scene: Scene, cron: Cron) -> None:
    entry_id = scene.entry(jitter_seconds=60, offset_ms=59_999)
    nominal = entry(scene, entry_id).next_run_at
    assert entry(scene, entry_id).due_at == nominal + timedelta(milliseconds=59_999)
    seconds = (nominal + timedelta(seconds=60) - scene.now()).total_seconds()
    pass_at(scene, cron, (seconds - 0.9) / 60)
    assert scene.count("jobs") == 0
    pass_at(scene, cron, (seconds + 0.1) / 60)
    (job,) = scene.all("jobs")
    assert job["run_at"] == nominal + timedelta(milliseconds=59_999)
    (occurrence,) = scene.all("cron_occurrences")
    assert (occurrence["nominal_at"], occurrence["due_at"]) == (nominal, job["run_at"])
    assert entry(scene, entry_id).next_run_at == nominal + timedelta(minutes=1)


def test_an_entry_stops_at_its_end_and_stays_enabled(scene: Scene, cron: Cron) -> None:
    now = scene.now()
    entry_id = scene.entry(ends_at=now + timedelta(seconds=1))
    pass_at(scene, cron, 5)
    assert occurrences(scene, entry_id) == [("fired", None)]
    after = entry(scene, entry_id)
    assert (after.enabled, after.next_run_at, after.due_at) == (True, None, None)


def test_bad_entries_are_disabled_in_words_and_ten_good_ones_fire(scene: Scene, cron: Cron) -> None:
    good = [scene.entry() for _ in range(5)]
    bad = [scene.entry("0 0 31 2 *"), scene.entry(timezone="Mars/Phobos"), scene.entry("no cron")]
    good += [scene.entry() for _ in range(5)]
    cron.run_once()
    assert sorted(job["cron_entry_id"] for job in scene.all("jobs")) == good
    for entry_id in bad:
        after = entry(scene, entry_id)
        assert (after.enabled, after.next_run_at) == (False, None) and after.disabled_reason
        assert occurrences(scene, entry_id) == [("skipped", "error")]
    assert "Mars/Phobos" in entry(scene, bad[1]).disabled_reason
    assert cron.run_once() > 0


def test_an_entry_the_database_refuses_stops_no_other_and_is_tried_again(scene: Scene, cron: Cron) -> None:
    entries = [scene.entry() for _ in range(7)]
    refused = entries[2]
    scene.conn.execute(
        text(f"ALTER TABLE jobs ADD CONSTRAINT no_such_job CHECK (cron_entry_id <> {refused}) NOT VALID")
    )
    try:
        cron.run_once()
        cron.run_once()
        assert sorted(job["cron_entry_id"] for job in scene.all("jobs")) == [e for e in entries if e != refused]
        assert occurrences(scene, refused) == [] and entry(scene, refused).enabled
    finally:
        scene.conn.execute(text("ALTER TABLE jobs DROP CONSTRAINT no_such_job"))
    cron.run_once()
    assert occurrences(scene, refused) == [], "it is left alone for a while"
    Cron(scene.stores).run_once()
    assert occurrences(scene, refused) == [("fired", None)]


def test_times_are_counted_by_what_became_of_them(scene: Scene, cron: Cron) -> None:
    scene.entry(
        overlap="skip", catch_up="none", next_run_at=scene.now().replace(second=0, microsecond=0) - timedelta(hours=4)
    )
    cron.run_once()
    pass_at(scene, cron, 1)
    totals = {(row["status"], row["reason"]): row["count"] for row in scene.all("cron_totals")}
    assert totals == {("fired", ""): 1, ("skipped", "missed"): 240, ("skipped", "overlap"): 1}
    scene.conn.execute(text("DELETE FROM cron_occurrences"))
    collected = StoreCollector(lambda: scene.stores).collect()
    (family,) = [family for family in collected if family.name == "cron_occurrences"]
    samples = {(sample.labels["status"], sample.labels["reason"]): sample.value for sample in family.samples}
    assert (family.samples[0].name, samples) == ("cron_occurrences_total", totals)


def test_more_entries_than_a_batch_holds_are_fired_without_a_pause(
    scene: Scene, cron: Cron, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.cron.MOST", 3)
    for _ in range(10):
        scene.entry()
    assert [cron.run_once() for _ in range(4)] == [0.0, 0.0, 0.0, INTERVAL_SECONDS]
    assert scene.count("jobs") == 10 and len(scene.ready()) == 10
