"""Changing a job that has not started or is dead: what is changed, what is refused, and what stays on record as it was sent."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import redis
from sqlalchemy import Connection, Engine, text

from app import jobs
from app.demo_receiver import DemoReceiver
from app.errors import InvalidRequest
from app.jobs import JobEdit, sent
from app.signing import new_secret
from app.stream import to_score
from tests.eventually import eventually
from tests.factories import Scene, as_json, shifted, to_record
from tests.processes import Processes


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


def edit(scene: Scene, job_id: UUID, **wanted: Any) -> jobs.Changed:
    return jobs.edit(scene.stores, scene.client_id, job_id, JobEdit(**wanted))  # type: ignore[typeddict-item]


def fail(scene: Scene, job_id: UUID, next_status: str = "dead") -> None:
    """An attempt that fails, and leaves the job in `next_status`."""
    worker = scene.worker()
    [claimed] = scene.claim(job_id, worker=worker)
    jobs.record(scene.conn, [to_record(claimed, worker, next_status)])


def sent_by(scene: Scene, job_id: UUID, number: int) -> sent.Sent:
    found = sent.attempt(scene.stores.engine, None, job_id, number)
    assert found is not None
    return found[1]


def test_every_column_can_be_changed_and_the_rest_stays(scene: Scene) -> None:
    wanted = {
        "payload": "<é/>", "content_type": "application/xml", "callback_url": "http://127.0.0.1:9/new", "callback_host": "127.0.0.1:9",
        "method": "PUT", "headers": '[["X-A","1"]]', "timeout_seconds": 3.5, "success_statuses": "204", "max_attempts": 9,
        "retry": '{"backoff":"fixed"}', "on_success_url": "http://127.0.0.1:9/s", "on_success_host": "127.0.0.1:9",
        "on_failure_url": "http://127.0.0.1:9/f", "on_failure_host": "127.0.0.1:9",
    }  # fmt: skip
    job_id = scene.job("scheduled", run_at=scene.now() + timedelta(hours=1))
    before = dict(scene.row(job_id))

    assert edit(scene, job_id, **wanted).outcome == "changed"

    after = dict(scene.row(job_id))
    assert {name: after[name] for name in wanted} == wanted
    assert after["payload_bytes"] == 5
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {*wanted, "payload_bytes", "updated_at"}


def test_each_column_can_be_changed_alone(scene: Scene) -> None:
    job_id = scene.job()
    for wanted in ({"method": "PUT"}, {"headers": "[]"}, {"payload": None, "method": "GET"}, {"max_attempts": 1}):
        assert edit(scene, job_id, **wanted).outcome == "changed"
    row = scene.row(job_id)
    assert (row["method"], row["payload"], row["payload_bytes"], row["max_attempts"]) == ("GET", None, 0, 1)


@pytest.mark.parametrize(("status", "attempts"), [("scheduled", 1), ("running", 1), ("done", 1), ("cancelled", 0)])
def test_what_has_started_or_ended_is_left_alone_with_a_reason(scene: Scene, status: str, attempts: int) -> None:
    job_id = scene.job(status, attempts=attempts)
    before = as_json(scene.row(job_id))
    refused = edit(scene, job_id, payload="2")
    assert refused.outcome == "refused" and status in (refused.reason or "")
    assert as_json(scene.row(job_id)) == before


def test_a_dead_job_has_no_time_to_move_and_keeps_room_for_its_attempts(scene: Scene) -> None:
    job_id = scene.job("dead", attempts=3)
    for wanted, told in (({"run_at": scene.now()}, "retry it"), ({"max_attempts": 2}, "has had 3 attempts")):
        refused = edit(scene, job_id, **wanted)
        assert refused.outcome == "refused" and told in (refused.reason or "")
    assert edit(scene, job_id, max_attempts=3).outcome == "changed"


def test_a_method_that_needs_a_body_is_not_left_without_one(scene: Scene) -> None:
    job_id = scene.job(method="GET", payload=None, payload_bytes=0)
    for wanted in ({"method": "POST"}, {"method": "PATCH", "payload": None}):
        with pytest.raises(InvalidRequest, match="payload"):
            edit(scene, job_id, **wanted)
    assert edit(scene, job_id, method="POST", payload="1").outcome == "changed"
    with pytest.raises(InvalidRequest):
        edit(scene, job_id, payload=None)
    assert scene.row(job_id)["payload"] == "1"


def test_moving_a_job_tells_redis_within_the_horizon_only(scene: Scene) -> None:
    job_id = scene.job("scheduled", run_at=scene.now() + timedelta(hours=1))
    soon = scene.now() + timedelta(seconds=20)
    assert edit(scene, job_id, run_at=soon).status == "scheduled"
    assert scene.scheduled() == {scene.ticket(job_id).member: to_score(soon)}
    row = scene.row(job_id)
    assert row["run_at"] == row["scheduled_for"] == row["first_due_at"] == soon

    far = scene.now() + timedelta(hours=2)
    edit(scene, job_id, run_at=far)
    assert scene.scheduled() == {scene.ticket(job_id).member: to_score(soon)}, (
        "the old entry is for the claim to refuse"
    )

    past = scene.now() - timedelta(hours=2)
    assert edit(scene, job_id, run_at=past).status == "pending"
    assert scene.ready() == [scene.ticket(job_id).member]
    row = scene.row(job_id)
    assert row["run_at"] == past < row["first_due_at"]


def test_a_job_moved_later_is_never_delivered_at_the_earlier_time(
    scene: Scene, processes: Processes, receiver: DemoReceiver
) -> None:
    """With a real worker and scheduler: the entry with the earlier time is still in Redis, or already in the stream."""
    scene.conn.execute(text("UPDATE clients SET signing_secret = :secret"), {"secret": new_secret()})
    processes.worker()
    processes.scheduler()
    url, host = f"{receiver.url}/hook", f"127.0.0.1:{receiver.port}"
    first = scene.now() + timedelta(seconds=2)
    moved, kept, due = (
        jobs.submit(scene.stores, scene.request(callback_url=url, callback_host=host, run_at=run_at)).job_id
        for run_at in (first, first, None)
    )
    # A third is due at once and moved while it is in the stream, if no worker has come first.
    is_moved = edit(scene, due, run_at=first + timedelta(seconds=2)).outcome == "changed"
    later = first + timedelta(seconds=1.5)
    assert edit(scene, moved, run_at=later).outcome == "changed"
    scene.stream.client.zadd(scene.keys.scheduled, {scene.ticket(moved).member: to_score(first)})

    eventually(lambda: scene.count("jobs", "status = 'done'") == 3, timeout=30)

    arrived = {arrival.job_id: arrival.arrived_at for arrival in receiver.record.newest_first()}
    assert len(receiver.record.newest_first()) == 3
    assert arrived[str(kept)] >= first
    assert arrived[str(moved)] >= later
    assert not is_moved or arrived[str(due)] >= first + timedelta(seconds=2)


def test_attempts_stay_on_record_as_they_were_sent(scene: Scene) -> None:
    job_id = scene.job(payload="1", max_attempts=1)
    fail(scene, job_id)
    edit(scene, job_id, payload="2", max_attempts=2)
    edit(scene, job_id, payload="3", headers='[["X-A","b"]]', method="PUT", callback_url="http://127.0.0.1:8080/new")
    assert sent_by(scene, job_id, 1).payload == "1"
    jobs.retry(scene.stores, None, job_id)
    edit(scene, job_id, payload="4")
    fail(scene, job_id, "scheduled")
    with shifted(scene.conn, 60):
        fail(scene, job_id)
    jobs.retry(scene.stores, None, job_id)
    fail(scene, job_id)
    edit(scene, job_id, payload="<x/>", content_type="application/xml")

    found = [sent_by(scene, job_id, number) for number in (1, 2, 3, 4)]
    assert [each.payload for each in found] == ["1", "4", "4", "4"]
    assert [each.max_attempts for each in found] == [1, 2, 2, 2]
    assert [each.method for each in found] == ["POST", "PUT", "PUT", "PUT"]
    assert found[1].callback_url == "http://127.0.0.1:8080/new" != found[0].callback_url
    assert ("X-A", "b") in found[1].header_fields and ("X-A", "b") not in found[0].header_fields
    assert ("Content-Type", "application/json") in found[3].header_fields
    assert [row["through_generation"] for row in scene.all("job_revisions")] == [0, 2]


def test_a_job_that_was_never_tried_keeps_no_versions(scene: Scene) -> None:
    for job_id in (scene.job(), scene.job("dead", attempts=0)):
        edit(scene, job_id, payload="2")
    assert scene.count("job_revisions") == 0


def test_versions_go_with_their_job(scene: Scene) -> None:
    job_id = scene.job(max_attempts=1)
    fail(scene, job_id)
    edit(scene, job_id, payload="2")
    assert scene.count("job_revisions") == 1
    scene.conn.execute(text("DELETE FROM jobs"))
    assert scene.count("job_revisions") == 0


def test_an_edit_and_claims_at_once_leave_one_truth(scene: Scene) -> None:
    """Either the job was changed first and is sent as changed, or it was claimed first and the change is refused."""
    ids = [scene.job(payload="1") for _ in range(40)]
    tickets = [scene.ticket(job_id) for job_id in ids]
    worker = scene.worker()
    with ThreadPoolExecutor(4) as pool:
        edits = [pool.submit(edit, scene, job_id, payload="2") for job_id in ids]
        claimed = {claim.job_id: claim.body for claim in jobs.claim(scene.conn, worker, tickets).claims}
    for job_id, outcome in zip(ids, (each.result().outcome for each in edits), strict=True):
        if job_id in claimed:
            assert claimed[job_id] == (b"2" if outcome == "changed" else b"1")
        else:
            assert outcome == "changed" and scene.row(job_id)["payload"] == "2"


# Run now


def test_a_scheduled_job_becomes_due_at_once(scene: Scene) -> None:
    job_id = scene.job(
        "scheduled", run_at=scene.now() + timedelta(hours=1), first_due_at=scene.now() + timedelta(hours=1)
    )
    before = scene.now()
    assert jobs.run_now(scene.stores, scene.client_id, job_id) == jobs.Changed("changed", "scheduled")
    row = scene.row(job_id)
    assert before <= row["run_at"] == row["first_due_at"] <= scene.now()
    assert scene.ready() == [f"{job_id}:0:0"]
    assert len(scene.claim(job_id)) == 1


def test_a_retrying_job_keeps_its_generation_its_attempts_and_since_when_it_counts(scene: Scene) -> None:
    first = scene.now() - timedelta(hours=1)
    columns = {"attempts": 2, "queue_generation": 3, "first_due_at": first, "run_at": scene.now() + timedelta(hours=1)}
    job_id = scene.job("scheduled", **columns)
    jobs.run_now(scene.stores, None, job_id)
    row = scene.row(job_id)
    assert (row["status"], row["attempts"], row["queue_generation"], row["first_due_at"]) == ("scheduled", 2, 3, first)
    assert scene.ready() == [f"{job_id}:3:2"]
    [claimed] = scene.claim(job_id)
    assert (claimed.attempt, claimed.queue_generation) == (3, 3)


def test_what_is_due_stays_as_due_as_it_is(scene: Scene) -> None:
    pending, late = scene.job(), scene.job("scheduled")
    before = scene.row(pending)
    assert jobs.run_now(scene.stores, None, pending) == jobs.Changed("unchanged", "pending")
    assert as_json(scene.row(pending)) == as_json(before)
    was_due = scene.row(late)["run_at"]
    jobs.run_now(scene.stores, None, late)
    assert scene.row(late)["run_at"] == was_due
