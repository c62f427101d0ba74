"""The state table of design.md section 3: every function against every status, each fence, and what no row can hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import redis
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import IntegrityError

from app import jobs
from app.attempts import Claim
from app.ids import uuid7
from app.jobs import bulk
from app.jobs.bulk import By
from app.jobs.changes import cancel_for_next
from app.jobs.rescue import bury_exhausted
from app.models.jobs import STATUSES
from app.queues import changes
from app.stream import Ticket
from tests.factories import Scene, as_json, lost, make_job, to_record

CLAIM_OF_NOBODY = uuid7()
BY = By("user", "ada")


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


def claim_of(scene: Scene, job_id: UUID) -> Claim:
    """The claim that the row speaks of, or would speak of if it were running."""
    claimed, _ = scene.running()
    row = scene.row(job_id)
    return replace(
        claimed,
        job_id=job_id,
        queue_generation=row["queue_generation"],
        attempt=row["attempts"],
        number=row["attempts"],
    )


def worker_of(scene: Scene, job_id: UUID) -> UUID:
    worker: UUID | None = scene.row(job_id)["worker"]
    return worker or CLAIM_OF_NOBODY


def claim(scene: Scene, job_id: UUID) -> None:
    jobs.claim(scene.conn, scene.worker(), [scene.ticket(job_id)])


def record(next_status: str) -> Callable[[Scene, UUID], None]:
    def act(scene: Scene, job_id: UUID) -> None:
        jobs.record(scene.conn, [to_record(claim_of(scene, job_id), worker_of(scene, job_id), next_status)])

    return act


def record_lost(scene: Scene, job_id: UUID) -> None:
    jobs.record(scene.conn, [lost(claim_of(scene, job_id), worker_of(scene, job_id))])


def hand_back(scene: Scene, job_id: UUID) -> None:
    jobs.hand_back(scene.conn, worker_of(scene, job_id), [claim_of(scene, job_id)])


def move(scene: Scene, job_id: UUID, seconds: float) -> None:
    jobs.edit(scene.stores, scene.client_id, job_id, {"run_at": scene.now() + timedelta(seconds=seconds)})


def bury(scene: Scene, job_id: UUID) -> None:
    bury_exhausted(scene.conn, [job_id])


ACTS: dict[str, Callable[[Scene, UUID], Any]] = {
    "claim": claim,
    "record done": record("done"),
    "record retry": record("scheduled"),
    "record dead": record("dead"),
    "record lost": record_lost,
    "hand back": hand_back,
    "cancel": lambda scene, job_id: jobs.cancel(scene.stores, scene.client_id, job_id),
    "retry": lambda scene, job_id: jobs.retry(scene.stores, scene.client_id, job_id),
    "edit": lambda scene, job_id: jobs.edit(scene.stores, scene.client_id, job_id, {"max_attempts": 7}),
    "move later": lambda scene, job_id: move(scene, job_id, 60),
    "move earlier": lambda scene, job_id: move(scene, job_id, -60),
    "run now": lambda scene, job_id: jobs.run_now(scene.stores, scene.client_id, job_id),
    "request cancel": lambda scene, job_id: jobs.request_cancel(scene.conn, job_id),
    "purge": lambda scene, job_id: changes.purge(scene.stores, scene.client_id, "default", BY),
    "cancel for next": lambda scene, job_id: cancel_for_next(scene.conn, job_id),
    "bury exhausted": bury,
    "extend leases": lambda scene, job_id: jobs.extend_leases(scene.conn, worker_of(scene, job_id), [job_id]),
    "take up": lambda scene, job_id: jobs.take_up(scene.conn, worker_of(scene, job_id), [], 10),
}
ALLOWED = {
    ("claim", "pending"): "running",
    ("claim", "scheduled"): "running",
    ("record done", "running"): "done",
    ("record retry", "running"): "scheduled",
    ("record dead", "running"): "dead",
    ("record lost", "running"): "scheduled",
    ("hand back", "running"): "scheduled",
    ("cancel", "pending"): "cancelled",
    ("cancel", "scheduled"): "cancelled",
    ("retry", "dead"): "scheduled",
    ("edit", "pending"): "pending",
    ("edit", "scheduled"): "scheduled",
    ("edit", "dead"): "dead",
    ("move later", "pending"): "scheduled",
    ("move later", "scheduled"): "scheduled",
    ("move earlier", "pending"): "pending",
    ("move earlier", "scheduled"): "pending",
    ("run now", "scheduled"): "scheduled",
    ("request cancel", "running"): "running",
    ("purge", "pending"): "cancelled",
    ("purge", "scheduled"): "cancelled",
    ("cancel for next", "pending"): "cancelled",
    ("cancel for next", "scheduled"): "cancelled",
    ("cancel for next", "running"): "running",
    ("bury exhausted", "pending"): "dead",
    ("bury exhausted", "scheduled"): "dead",
}


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("act", ACTS)
def test_each_function_leaves_only_the_statuses_it_may(scene: Scene, act: str, status: str) -> None:
    columns = {"attempts": 5} if act == "bury exhausted" else {}
    job_id = scene.job(status, **columns)
    before = scene.row(job_id)
    ACTS[act](scene, job_id)
    after = scene.row(job_id)
    assert after["status"] == ALLOWED.get((act, status), status)
    if (act, status) in ALLOWED:
        assert after["updated_at"] > before["updated_at"]
    else:
        assert as_json(after) == as_json(before)


@pytest.mark.parametrize("status", STATUSES)
def test_cancel_and_retry_say_what_they_did(scene: Scene, status: str) -> None:
    cancelled = jobs.cancel(scene.stores, scene.client_id, scene.job(status))
    retried = jobs.retry(scene.stores, scene.client_id, scene.job(status))
    can_cancel, can_retry = status in ("pending", "scheduled"), status == "dead"
    assert (cancelled.outcome, cancelled.status) == (("changed", "cancelled") if can_cancel else ("refused", status))
    assert (retried.outcome, retried.status) == (("changed", "scheduled") if can_retry else ("refused", status))


@pytest.mark.parametrize("retry", [jobs.retry, lambda stores, _, job_id: bulk.change(stores, "retry", [job_id], BY)])
def test_a_retry_begins_anew_to_count_when_to_give_up(scene: Scene, retry: Callable[..., Any]) -> None:
    job_id = scene.job("dead", first_due_at=scene.now() - timedelta(days=1))
    retry(scene.stores, None, job_id)
    row = scene.row(job_id)
    assert (row["status"], row["first_due_at"]) == ("scheduled", row["run_at"])


@pytest.mark.parametrize(
    "change", [jobs.cancel, jobs.retry, lambda *of: jobs.edit(*of, {"max_attempts": 7}), jobs.run_now]
)
def test_a_strangers_job_is_missing(scene: Scene, change: Callable[..., jobs.Changed]) -> None:
    for status in ("pending", "dead"):
        job_id = scene.job(status)
        assert change(scene.stores, scene.client_id + 1, job_id).outcome == "missing"
        assert scene.status(job_id) == status
        assert change(scene.stores, None, job_id).outcome != "missing"
    assert change(scene.stores, scene.client_id, UUID(int=0)).outcome == "missing"


def test_a_retry_gives_the_whole_budget_under_a_new_generation(scene: Scene) -> None:
    job_id = scene.job(
        "dead", attempts=5, attempts_before=2, last_error="x", cancel_requested_at=scene.now(), queue_generation=3
    )
    before = scene.now()
    jobs.retry(scene.stores, scene.client_id, job_id)
    row = scene.row(job_id)
    assert (row["attempts"], row["attempts_before"], row["queue_generation"]) == (0, 7, 4)
    assert row["finished_at"] is None and row["cancel_requested_at"] is None
    assert before <= row["run_at"] <= scene.now()
    assert scene.ready() == [f"{job_id}:4:0"]


def test_a_cancelled_jobs_entry_is_stale(scene: Scene) -> None:
    job_id = scene.job()
    ticket = scene.ticket(job_id)
    jobs.cancel(scene.stores, scene.client_id, job_id)
    claimed = jobs.claim(scene.conn, scene.worker(), [ticket])
    assert (claimed.claims, claimed.put_back) == ([], [])


# Fences (C5)

WRONG: dict[str, dict[str, Any]] = {
    "older generation": {"queue_generation": 0},
    "newer generation": {"queue_generation": 2},
    "older attempt": {"attempt": 1},
    "newer attempt": {"attempt": 3},
    "another job": {"job_id": UUID(int=7)},
}
BY_CLAIM: dict[str, Callable[[Scene, Claim, UUID], object]] = {
    "record done": lambda scene, claimed, worker: jobs.record(scene.conn, [to_record(claimed, worker, "done")]),
    "record retry": lambda scene, claimed, worker: jobs.record(scene.conn, [to_record(claimed, worker, "scheduled")]),
    "record dead": lambda scene, claimed, worker: jobs.record(scene.conn, [to_record(claimed, worker, "dead")]),
    "record lost": lambda scene, claimed, worker: jobs.record(scene.conn, [lost(claimed, worker)]),
    "hand back": lambda scene, claimed, worker: jobs.hand_back(scene.conn, worker, [claimed]),
}


@pytest.mark.parametrize("wrong", [*WRONG, "another worker"])
@pytest.mark.parametrize("act", BY_CLAIM)
def test_a_running_job_is_changed_only_by_its_own_claim(scene: Scene, act: str, wrong: str) -> None:
    claimed, worker = scene.running(queue_generation=1, attempts=1)
    before = scene.row(claimed.job_id)
    other = scene.worker() if wrong == "another worker" else worker
    BY_CLAIM[act](scene, replace(claimed, **WRONG.get(wrong, {})), other)
    assert as_json(scene.row(claimed.job_id)) == as_json(before)
    BY_CLAIM[act](scene, claimed, worker)
    assert scene.status(claimed.job_id) != "running"


@pytest.mark.parametrize("wrong", [{"queue_generation": 0}, {"queue_generation": 2}, {"attempts": 0}, {"attempts": 2}])
@pytest.mark.parametrize("status", ["pending", "scheduled"])
def test_an_entry_claims_only_the_generation_and_attempt_it_names(
    scene: Scene, status: str, wrong: dict[str, Any]
) -> None:
    job_id = scene.job(status, queue_generation=1, attempts=1)
    before = scene.row(job_id)
    ticket = replace(Ticket(str(job_id), 1, 1), **wrong)
    claimed = jobs.claim(scene.conn, scene.worker(), [ticket])
    assert (claimed.claims, claimed.put_back) == ([], [])
    assert as_json(scene.row(job_id)) == as_json(before)


# What no row can hold

UNSTORABLE: dict[str, tuple[str, dict[str, Any]]] = {
    "an unknown status": ("pending", {"status": "paused"}),
    "a waiting job that finished": ("pending", {"finished_at": "now"}),
    "a scheduled job that finished": ("scheduled", {"finished_at": "now"}),
    "a running job that finished": ("running", {"finished_at": "now"}),
    "a done job that never finished": ("done", {"finished_at": None}),
    "a dead job that never finished": ("dead", {"finished_at": None}),
    "a cancelled job that never finished": ("cancelled", {"finished_at": None}),
    "a running job without a lease": ("running", {"lease_expires_at": None}),
    "a running job without a worker": ("running", {"worker": None}),
    "a running job without an attempt": ("running", {"attempts": 0}),
    "a waiting job with a lease": ("scheduled", {"lease_expires_at": "now"}),
    "a waiting job with a worker": ("pending", {"worker": uuid7()}),
    "a done job with a worker": ("done", {"worker": uuid7(), "lease_expires_at": "now"}),
    "attempts below zero": ("pending", {"attempts": -1}),
    "more attempts than it has": ("scheduled", {"attempts": 6}),
    "a budget of nothing": ("pending", {"max_attempts": 0}),
    "a budget beyond 100": ("pending", {"max_attempts": 101}),
    "a client that is not there": ("pending", {"client_id": 0}),
}


@pytest.mark.parametrize("what", UNSTORABLE)
def test_the_table_refuses(scene: Scene, what: str) -> None:
    status, columns = UNSTORABLE[what]
    columns = {name: scene.now() if value == "now" else value for name, value in columns.items()}
    status = columns.pop("status", status)
    with pytest.raises(IntegrityError):
        make_job(scene.conn, columns.pop("client_id", scene.client_id), status, **columns)


def test_a_key_is_stored_once_a_client(scene: Scene) -> None:
    scene.job(idempotency_key="k")
    with pytest.raises(IntegrityError):
        scene.job("done", idempotency_key="k")
