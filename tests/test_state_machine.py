"""The life of jobs against a model: any order of what programs, people, workers and the leader may do, on real stores."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from sqlalchemy import Connection, Engine

from app import jobs, processes
from app.attempts import Claim
from app.jobs.rescue import NIL, lost_claims
from tests.factories import Scene, lost, to_record

MOST_JOBS = 6


@dataclass
class Model:
    """What a job should be."""

    status: str
    attempts: int = 0
    generation: int = 0
    max_attempts: int = 3
    is_due: bool = True
    cancel_asked: bool = False
    made: int = 0


class Life(RuleBasedStateMachine):
    scene: Scene

    def __init__(self) -> None:
        super().__init__()
        scene = self.scene
        for table in ("executions", "job_revisions", "jobs"):
            scene.conn.exec_driver_sql(f"DELETE FROM {table}")
        scene.stream.client.flushdb()
        scene.stream.create_group()
        self.models: dict[UUID, Model] = {}
        self.held: dict[UUID, tuple[Claim, UUID]] = {}
        self.worker = scene.worker()

    # What programs and people do

    @precondition(lambda self: len(self.models) < MOST_JOBS)
    @rule(later=st.booleans(), max_attempts=st.integers(1, 3))
    def submit(self, later: bool, max_attempts: int) -> None:
        delay = 3600.0 if later else None
        made = jobs.submit(self.scene.stores, self.scene.request(delay_seconds=delay, max_attempts=max_attempts))
        assert made.status == ("scheduled" if later else "pending")
        self.models[made.job_id] = Model(made.status, max_attempts=max_attempts, is_due=not later)

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job_id, model = self._any(data)
        may = model.status in ("pending", "scheduled")
        assert (jobs.cancel(self.scene.stores, self.scene.client_id, job_id).outcome == "changed") is may
        if may:
            model.status = "cancelled"

    @rule(data=st.data())
    def ask_a_running_one_to_end(self, data: st.DataObject) -> None:
        job_id, model = self._any(data)
        assert jobs.request_cancel(self.scene.conn, job_id) is (model.status == "running")
        model.cancel_asked |= model.status == "running"

    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        job_id, model = self._any(data)
        assert (jobs.retry(self.scene.stores, None, job_id).outcome == "changed") is (model.status == "dead")
        if model.status == "dead":
            model.status, model.attempts, model.is_due, model.cancel_asked = "scheduled", 0, True, False
            model.generation += 1

    @rule(data=st.data())
    def run_now(self, data: st.DataObject) -> None:
        job_id, model = self._any(data)
        expected = {"scheduled": "changed", "pending": "unchanged"}.get(model.status, "refused")
        assert jobs.run_now(self.scene.stores, None, job_id).outcome == expected
        model.is_due |= model.status == "scheduled"

    @rule(data=st.data(), max_attempts=st.integers(1, 3))
    def edit(self, data: st.DataObject, max_attempts: int) -> None:
        job_id, model = self._any(data)
        waits = model.status in ("pending", "scheduled") and model.attempts == 0
        may = waits or (model.status == "dead" and max_attempts >= model.attempts)
        changed = jobs.edit(self.scene.stores, None, job_id, {"max_attempts": max_attempts})
        assert (changed.outcome == "changed") is may
        if may:
            model.max_attempts = max_attempts

    # What workers do

    @rule(data=st.data(), twice=st.booleans())
    def claim(self, data: st.DataObject, twice: bool) -> None:
        """By its right ticket, or by one that is stale."""
        job_id, model = self._any(data)
        ticket = self.scene.ticket(job_id)
        claimed = jobs.claim(self.scene.conn, self.worker, [ticket, ticket] if twice else [ticket])
        may = model.status in ("pending", "scheduled") and model.is_due and model.attempts < model.max_attempts
        assert [claim.job_id for claim in claimed.claims] == ([job_id] if may else [])
        if may:
            model.status, model.attempts = "running", model.attempts + 1
            self.held[job_id] = (claimed.claims[0], self.worker)

    @rule(data=st.data())
    def claim_by_a_stale_ticket(self, data: st.DataObject) -> None:
        job_id, _ = self._any(data)
        ticket = self.scene.ticket(job_id)
        stale = type(ticket)(ticket.job_id, ticket.queue_generation + 1, ticket.attempts)
        assert jobs.claim(self.scene.conn, self.worker, [stale]).claims == []

    @precondition(lambda self: self.held)
    @rule(data=st.data(), ends=st.sampled_from(["done", "scheduled", "dead"]), again=st.booleans())
    def record(self, data: st.DataObject, ends: str, again: bool) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.held)))
        claim, worker = self.held.pop(job_id)
        model = self.models[job_id]
        if ends == "scheduled" and model.attempts >= model.max_attempts:
            ends = "dead"
        [recorded] = jobs.record(self.scene.conn, [to_record(claim, worker, ends, delay_seconds=3600.0)])
        assert recorded.outcome == "applied"
        if again:
            [late] = jobs.record(self.scene.conn, [to_record(claim, worker, "done")])
            assert late.outcome == "late"
        model.made += 1
        model.status = "cancelled" if ends == "scheduled" and model.cancel_asked else ends
        model.is_due = False

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def hand_back(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.held)))
        claim, worker = self.held.pop(job_id)
        jobs.hand_back(self.scene.conn, worker, [claim])
        model = self.models[job_id]
        model.status = "cancelled" if model.cancel_asked else "scheduled"
        model.attempts -= 1

    # What the leader does

    @rule()
    def the_worker_dies(self) -> None:
        """It is found lost, and its jobs go the way of a failed attempt."""
        processes.stop(self.scene.conn, self.worker)
        found = lost_claims(self.scene.conn, NIL, 100)
        assert {item.claim.job_id for item in found} == set(self.held)
        for item in found:
            model = self.models[item.claim.job_id]
            ends = "dead" if model.attempts >= model.max_attempts else "scheduled"
            jobs.record(self.scene.conn, [lost(item.claim, item.worker, ends)])
            model.status = "cancelled" if ends == "scheduled" and model.cancel_asked else ends
            model.made, model.is_due = model.made + 1, False
        self.held.clear()
        self.worker = self.scene.worker()

    @rule()
    def an_hour_passes(self) -> None:
        self.scene.conn.exec_driver_sql(
            "UPDATE jobs SET run_at = run_at - interval '2 hours' WHERE status IN ('pending', 'scheduled')"
        )
        for model in self.models.values():
            model.is_due |= model.status in ("pending", "scheduled")

    @rule()
    def redis_loses_everything(self) -> None:
        self.scene.stream.client.flushdb()
        self.scene.stream.create_group()

    @rule()
    def promote(self) -> None:
        self.scene.stream.promote(self.scene.now() + timedelta(hours=2))

    # What must always hold

    @invariant()
    def rows_are_what_the_model_says(self) -> None:
        for job_id, model in self.models.items():
            row: Any = self.scene.row(job_id)
            assert (row["status"], row["attempts"], row["queue_generation"]) == (
                model.status,
                model.attempts,
                model.generation,
            )
            assert (row["finished_at"] is not None) is (model.status in ("done", "dead", "cancelled"))
            assert (row["worker"] is not None) is (model.status == "running")
            assert len(self.scene.executions(job_id)) == model.made

    def _any(self, data: st.DataObject) -> tuple[UUID, Model]:
        if not self.models:
            self.submit(False, 3)
        job_id = data.draw(st.sampled_from(sorted(self.models)))
        return job_id, self.models[job_id]


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


def test_jobs_live_as_the_model_says(scene: Scene) -> None:
    machine = type("LifeOnStores", (Life,), {"scene": scene})
    checks = settings(
        max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
    )
    run_state_machine_as_test(machine, settings=checks)
