"""A short run of the fault harness; `make chaos` runs it at length."""

from __future__ import annotations

import pytest

from tests.chaos.__main__ import run

# One of each kind that is over soon: a seed of its own gives the order.
SOON = [
    "kill_worker",
    "kill_scheduler",
    "kill_web",
    "redis_flush",
    "redis_restart_empty",
    "redis_read_only",
    "postgres_crash",
    "postgres_connections_killed",
    "network_half_closed",
    "names_refused",
]


def test_a_fleet_keeps_its_promises_through_faults(capsys: pytest.CaptureFixture[str]) -> None:
    report = run(400, SOON, seed=42, scale=0.2, per_second=40.0)
    with capsys.disabled():
        print(f"\n{report.show()}")
    assert report.wrong == []
    assert report.figures["jobs accepted"] == 400
    assert report.figures["processes that died"] != {}


def test_restarts_and_reloads_in_order_cost_nobody_anything(capsys: pytest.CaptureFixture[str]) -> None:
    report = run(500, ["rolling_restart", "reload_web", "reload_web"], seed=7, scale=1.0, per_second=50.0)
    with capsys.disabled():
        print(f"\n{report.show()}")
    assert report.wrong == []
    assert report.figures["jobs accepted"] == 500
    assert report.figures["requests that failed"] == report.figures["attempts sent twice"] == 0
