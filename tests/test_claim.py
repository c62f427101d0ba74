"""Claiming (C2, C4): what is claimed, what is put back, what is dropped, and what a worker that died finds again."""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module
from uuid import UUID

import pytest
import redis
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import ProgrammingError

from app import jobs
from app.ids import uuid7
from app.redis_keys import GROUP
from app.stream import PUT_BACK_AHEAD, Due, Read, Ticket, to_score
from tests.factories import Scene, as_json, shifted

# The package's name for it is the function's.
claiming = import_module("app.jobs.claim")


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


def lock(conn: Connection, job_id: UUID) -> None:
    conn.execute(text("SELECT FROM jobs WHERE id = :id FOR UPDATE"), {"id": job_id})


def test_a_claim_takes_the_lease(scene: Scene) -> None:
    job_id = scene.job(attempts=1, attempts_before=4, queue_generation=2, payload='{"ü": 1}')
    worker = scene.worker()
    before = scene.now()
    claimed = jobs.claim(scene.conn, worker, [scene.ticket(job_id)])
    row = scene.row(job_id)
    assert (row["status"], row["attempts"], row["worker"]) == ("running", 2, worker)
    assert row["lease_expires_at"] - row["started_at"] == timedelta(seconds=claiming.LEASE_SECONDS)
    assert before <= row["started_at"] <= scene.now()
    [held] = claimed.claims
    assert held.fence == (job_id, 2, 2)
    assert (held.number, held.body, held.due_at, held.claimed_at) == (
        6,
        '{"ü": 1}'.encode(),
        row["run_at"],
        claimed.now,
    )
    assert claimed.put_back == []


def test_a_claim_signs_with_both_secrets_until_the_previous_one_ends(scene: Scene) -> None:
    scene.conn.execute(
        text(
            "UPDATE clients SET previous_signing_secret = 'old', previous_secret_expires_at = punctual_now() + interval '1 h'"
        )
    )
    assert scene.running()[0].signing_secrets == ("whsec_c2VjcmV0", "old")
    with shifted(scene.conn, 3601):
        assert scene.running()[0].signing_secrets == ("whsec_c2VjcmV0",)


def test_nothing_is_claimed_before_its_time(scene: Scene) -> None:
    """C2: the claim is the last word, whatever put the entry into the stream."""
    job_id = scene.job("scheduled", run_at=scene.now() + timedelta(seconds=20))
    before = scene.row(job_id)
    claimed = jobs.claim(scene.conn, scene.worker(), [scene.ticket(job_id)])
    assert claimed.claims == []
    assert [(job.ticket, job.run_at) for job in claimed.put_back] == [(scene.ticket(job_id), before["run_at"])]
    assert as_json(scene.row(job_id)) == as_json(before)
    with shifted(scene.conn, 21):
        assert len(jobs.claim(scene.conn, scene.worker(), [scene.ticket(job_id)]).claims) == 1


def test_a_locked_row_is_put_back_and_never_waited_for(scene: Scene) -> None:
    locked, free = scene.job(), scene.job()
    tickets = [scene.ticket(locked), scene.ticket(free)]
    with scene.stores.engine.begin() as holder:
        lock(holder, locked)
        scene.conn.execute(text("SET statement_timeout = '2s'"))
        claimed = jobs.claim(scene.conn, scene.worker(), tickets)
    assert [held.job_id for held in claimed.claims] == [free]
    assert [job.ticket for job in claimed.put_back] == [tickets[0]]
    assert scene.status(locked) == "pending"


def test_what_is_put_back_lies_at_least_50_ms_ahead(scene: Scene) -> None:
    now = scene.now()
    due, later = scene.job(), scene.job("scheduled", run_at=now + timedelta(seconds=9))
    for job_id in (due, later):
        scene.stream.client.xadd(scene.keys.ready, {"j": str(job_id), "g": 0, "a": 0})
    scene.stream.create_group()
    read = scene.stream.read("w", 10, 10)
    back = [Due(scene.ticket(due), now), Due(scene.ticket(later), now + timedelta(seconds=9))]
    scene.stream.finish(read, back, now)
    assert scene.scheduled() == {
        f"{due}:0:0": to_score(now + PUT_BACK_AHEAD),
        f"{later}:0:0": to_score(now + timedelta(seconds=9)),
    }
    assert PUT_BACK_AHEAD >= timedelta(milliseconds=50)
    assert scene.ready() == []
    assert scene.stream.client.xpending(scene.keys.ready, GROUP)["pending"] == 0


def test_a_batch_is_bounded_by_bytes(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claiming, "MAX_BATCH_BYTES", 100)
    ids = sorted(uuid7() for _ in range(3))
    for job_id, size in zip(ids, (60, 40, 1), strict=True):
        scene.job(id=job_id, payload="1" * size, payload_bytes=size)
    tickets = [scene.ticket(job_id) for job_id in ids]
    worker = scene.worker()
    first = jobs.claim(scene.conn, worker, tickets)
    assert [held.job_id for held in first.claims] == ids[:2]
    assert first.beyond == [tickets[2]] and first.put_back == []
    second = jobs.claim(scene.conn, worker, first.beyond)
    assert [held.job_id for held in second.claims] == ids[2:]


def test_a_job_larger_than_a_batch_is_claimed_alone(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claiming, "MAX_BATCH_BYTES", 100)
    large, small = sorted((uuid7(), uuid7()))
    scene.job(id=large, payload_bytes=101)
    scene.job(id=small)
    claimed = jobs.claim(scene.conn, scene.worker(), [scene.ticket(large), scene.ticket(small)])
    assert [held.job_id for held in claimed.claims] == [large]
    assert claimed.beyond == [scene.ticket(small)]


def test_a_stale_entry_is_dropped(scene: Scene) -> None:
    ids = [scene.job(status) for status in ("running", "done", "dead", "cancelled")]
    tickets = [scene.ticket(job_id) for job_id in ids] + [Ticket(str(UUID(int=1)), 0, 0)]
    claimed = jobs.claim(scene.conn, scene.worker(), tickets)
    assert (claimed.claims, claimed.put_back, claimed.beyond) == ([], [], [])


def test_a_stale_entry_does_not_hide_a_good_one_of_the_same_job(scene: Scene) -> None:
    """An entry added twice may lie behind the next attempt's in one batch: acknowledging both must lose neither."""
    job_id = scene.job("scheduled", attempts=1)
    tickets = [scene.ticket(job_id), Ticket(str(job_id), 0, 0), scene.ticket(job_id)]
    claimed = jobs.claim(scene.conn, scene.worker(), tickets)
    assert [held.fence for held in claimed.claims] == [(job_id, 0, 2)]
    assert claimed.put_back == []


def test_an_entry_twice_in_a_batch_is_claimed_once(scene: Scene) -> None:
    job_id = scene.job()
    claimed = jobs.claim(scene.conn, scene.worker(), [scene.ticket(job_id)] * 3)
    assert len(claimed.claims) == 1
    assert scene.row(job_id)["attempts"] == 1


def test_a_job_without_attempts_left_is_not_claimed(scene: Scene) -> None:
    job_id = scene.job("scheduled", attempts=5)
    claimed = jobs.claim(scene.conn, scene.worker(), [scene.ticket(job_id)])
    assert (claimed.claims, claimed.put_back) == ([], [])


@pytest.mark.parametrize("facts", [{"lost": True}, {"stopped": True}])
def test_a_worker_that_was_declared_lost_claims_nothing(scene: Scene, facts: dict[str, bool]) -> None:
    job_id = scene.job()
    claimed = jobs.claim(scene.conn, scene.worker(**facts), [scene.ticket(job_id)])
    assert claimed.claims == []
    assert [job.ticket for job in claimed.put_back] == [scene.ticket(job_id)]


def test_a_worker_without_a_row_claims_nothing(scene: Scene) -> None:
    job_id = scene.job()
    claimed = jobs.claim(scene.conn, UUID(int=5), [scene.ticket(job_id)])
    assert claimed.claims == [] and scene.status(job_id) == "pending"


def test_one_row_that_cannot_be_claimed_does_not_fail_the_batch(scene: Scene) -> None:
    """C6: the bad one is buried with the error, and the nine others are claimed."""
    ids = [scene.job() for _ in range(10)]
    scene.conn.execute(text(f"ALTER TABLE jobs ADD CONSTRAINT bad_row CHECK (id <> '{ids[4]}' OR status <> 'running')"))
    try:
        claimed = jobs.claim(scene.conn, scene.worker(), [scene.ticket(job_id) for job_id in ids])
    finally:
        scene.conn.execute(text("ALTER TABLE jobs DROP CONSTRAINT bad_row"))
    assert sorted(held.job_id for held in claimed.claims) == sorted({*ids} - {ids[4]})
    row = scene.row(ids[4])
    assert (row["status"], row["last_error_class"]) == ("dead", "unclaimable")
    assert "bad_row" in row["last_error"]


def test_an_error_that_is_no_rows_buries_nothing(scene: Scene) -> None:
    """A worker ahead of the migrations, say: every row would fail alike."""
    job_id = scene.job()
    scene.conn.execute(text("ALTER TABLE clients RENAME COLUMN previous_signing_secret TO hidden"))
    try:
        with pytest.raises(ProgrammingError):
            jobs.claim(scene.conn, scene.worker(), [scene.ticket(job_id)])
    finally:
        scene.conn.execute(text("ALTER TABLE clients RENAME COLUMN hidden TO previous_signing_secret"))
    assert scene.status(job_id) == "pending"


def test_an_empty_batch_is_nothing(scene: Scene) -> None:
    assert jobs.claim(scene.conn, scene.worker(), []).claims == []


# What a worker finds again (C7), and leases (C17)


def test_claims_whose_answer_was_lost_are_taken_up(scene: Scene) -> None:
    worker, other = scene.worker(), scene.worker()
    seen, unseen, others = scene.job(), scene.job(), scene.job()
    held = scene.claim(seen, unseen, worker=worker)
    scene.claim(others, worker=other)
    found = jobs.take_up(scene.conn, worker, [seen], 10)
    assert [claim.fence for claim in found] == [held[1].fence]
    assert jobs.take_up(scene.conn, worker, [seen, unseen], 10) == []
    assert len(jobs.take_up(scene.conn, worker, [], 1)) == 1


def test_only_leases_that_end_soon_are_extended(scene: Scene) -> None:
    worker = scene.worker()
    soon, later, not_held = scene.job(), scene.job(), scene.job()
    scene.claim(soon, later, not_held, worker=worker)
    for job_id, seconds in ((soon, 29), (later, 31), (not_held, 5)):
        scene.change(job_id, lease_expires_at=scene.now() + timedelta(seconds=seconds))
    before = {job_id: scene.row(job_id)["lease_expires_at"] for job_id in (later, not_held)}
    jobs.extend_leases(scene.conn, worker, [soon, later])
    ahead = scene.row(soon)["lease_expires_at"] - scene.now()
    assert timedelta(seconds=59) < ahead <= timedelta(seconds=60)
    assert {job_id: scene.row(job_id)["lease_expires_at"] for job_id in before} == before


def test_a_strangers_lease_is_not_extended(scene: Scene) -> None:
    claimed, _ = scene.running()
    scene.change(claimed.job_id, lease_expires_at=scene.now())
    before = scene.row(claimed.job_id)["lease_expires_at"]
    jobs.extend_leases(scene.conn, scene.worker(), [claimed.job_id])
    assert scene.row(claimed.job_id)["lease_expires_at"] == before


def test_a_claim_names_its_entries_one_by_one(scene: Scene) -> None:
    """C6: an entry that cannot be parsed is no ticket, and says so, before any statement."""
    client = scene.stream.client
    good = scene.job()
    fields = (
        {"j": "no uuid", "g": 0, "a": 0},
        {"j": str(good), "g": 0},
        {"j": str(good), "g": "x", "a": 0},
        {"j": str(good), "g": -1, "a": 0},
        {"j": str(good), "g": 0, "a": 1 << 31},
        {"j": b"\xff" * 16, "g": 0, "a": 0},
        {"x": 1},
        {"j": str(good), "g": 0, "a": 0},
    )
    for entry in fields:
        client.xadd(scene.keys.ready, entry)  # type: ignore[arg-type]
    scene.stream.create_group()
    read: list[Read] = scene.stream.read("w", 100, 10)
    assert [entry.ticket for entry in read] == [None] * 7 + [scene.ticket(good)]
    scene.stream.note_bad(read[:7])
    assert client.llen(scene.keys.bad) == 7
    assert 0 < client.ttl(scene.keys.bad) <= 7 * 24 * 3600
