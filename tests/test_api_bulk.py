"""POST /v1/jobs/bulk: what matched when it was asked for, in batches, once, whatever dies meanwhile."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import redis
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine, text

from app.jobs import bulk_operations
from scheduler.bulk import Bulk
from tests.api_calls import ApiCalls, error
from tests.conftest import make_api_key
from tests.eventually import eventually
from tests.factories import Scene
from tests.processes import Processes

PATH = "/v1/jobs/bulk"


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


@pytest.fixture
def api(client: FlaskClient, scene: Scene) -> ApiCalls:
    """A key of another client first, then one of the scene's."""
    make_api_key(scene.conn, "stranger")
    key = make_api_key(scene.conn, "mine")
    scene.conn.execute(
        text("UPDATE api_keys SET client_id = :id WHERE client_id = (SELECT id FROM clients WHERE name = 'mine')"),
        {"id": scene.client_id},
    )
    return ApiCalls(client, key)


def dead(scene: Scene, count: int, **columns: Any) -> list[Any]:
    """Jobs that died a minute ago."""
    then = scene.now() - timedelta(minutes=1)
    return [scene.job("dead", updated_at=then, **columns) for _ in range(count)]


def asked(api: ApiCalls, action: str, wanted: dict[str, Any], **more: Any) -> str:
    answer = api.post(PATH, {"action": action, "filter": wanted, **more})
    assert answer.status_code == 202, answer.text
    return str(answer.headers["Location"])


def run(scene: Scene) -> None:
    leader = Bulk(scene.stores)
    while leader.run_once() == 0:
        pass


def test_it_changes_what_matches_and_says_how_far_it_is(
    scene: Scene, api: ApiCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_operations, "BATCH", 2)
    matching, others = dead(scene, 5, type="a"), dead(scene, 2, type="b")
    assert api.post(PATH, {"action": "retry", "filter": {"type": "a"}, "dry_run": True}).get_json() == {"matched": 5}
    path = asked(api, "retry", {"type": "a"})
    assert api.get(path).get_json()["state"] == "waiting"
    assert Bulk(scene.stores).run_once() == 0
    found = api.get(path).get_json()
    assert (found["state"], found["matched"], found["changed"]) == ("running", 5, 2)
    run(scene)
    found = api.get(path).get_json()
    assert (found["state"], found["changed"], found["passed_by"]) == ("done", 5, 0)
    assert {scene.status(job_id) for job_id in matching} == {"scheduled"}
    assert {scene.status(job_id) for job_id in others} == {"dead"}
    assert len(scene.ready()) == 5
    [note] = [row for row in scene.all("audit_log") if row["action"] == "job.bulk_retry"]
    assert note["detail"]["matched"] == 5


@pytest.mark.parametrize(
    ("action", "status", "after"),
    [
        ("retry", "dead", "scheduled"),
        ("cancel", "scheduled", "cancelled"),
        ("cancel", "pending", "cancelled"),
        ("delete", "done", None),
    ],
)
def test_each_action_leaves_its_statuses_alone_but_those_it_is_for(
    scene: Scene, api: ApiCalls, action: str, status: str, after: str | None
) -> None:
    then = scene.now() - timedelta(minutes=1)
    jobs = {
        each: scene.job(each, updated_at=then)
        for each in ("pending", "scheduled", "running", "done", "dead", "cancelled")
    }
    asked(api, action, {"status": status})
    run(scene)
    rows = {str(row["id"]): row["status"] for row in scene.all("jobs")}
    assert rows.get(str(jobs[status])) == after
    assert all(rows[str(job_id)] == each for each, job_id in jobs.items() if each != status)


def test_what_came_or_changed_after_the_question_is_left_alone(scene: Scene, api: ApiCalls) -> None:
    early, changed = dead(scene, 1)[0], dead(scene, 1)[0]
    path = asked(api, "retry", {})
    late = scene.job("dead")
    scene.conn.execute(text("UPDATE jobs SET updated_at = punctual_now() WHERE id = :id"), {"id": changed})
    run(scene)
    assert [scene.status(job_id) for job_id in (early, changed, late)] == ["scheduled", "dead", "dead"]
    assert api.get(path).get_json()["changed"] == 1


def test_another_clients_jobs_and_operations_are_not_there(scene: Scene, api: ApiCalls, client: FlaskClient) -> None:
    [mine] = dead(scene, 1)
    stranger = ApiCalls(client, make_api_key(scene.conn, "a third"))
    asked(stranger, "retry", {})
    path = asked(api, "delete", {"status": "done"})
    run(scene)
    assert scene.status(mine) == "dead"
    error(stranger.get(path), 404)
    error(stranger.post(f"{path}/stop"), 404)


def test_it_can_be_stopped(scene: Scene, api: ApiCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_operations, "BATCH", 1)
    jobs = dead(scene, 3)
    path = asked(api, "retry", {})
    Bulk(scene.stores).run_once()
    assert api.post(f"{path}/stop").status_code == 204
    run(scene)
    assert sorted(scene.status(job_id) for job_id in jobs) == ["dead", "dead", "scheduled"]
    assert api.get(path).get_json()["state"] == "stopped"
    error(api.post(f"{path}/stop"), 409)


def test_retries_can_be_spread(scene: Scene, api: ApiCalls) -> None:
    jobs = dead(scene, 5)
    asked(api, "retry", {}, spread_seconds=100)
    run(scene)
    times = sorted(scene.row(job_id)["run_at"] for job_id in jobs)
    assert [round((at - times[0]).total_seconds()) for at in times] == [0, 25, 50, 75, 100]
    assert len(scene.on_the_way()) == 2, "one is due, one within the horizon of half a minute"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"filter": {}}, "action"),
        ({"action": "retry"}, "filter"),
        ({"action": "burn", "filter": {}}, "action"),
        ({"action": "retry", "filter": {"status": "gone"}}, "filter.status"),
        ({"action": "retry", "filter": {"colour": "red"}}, "filter.colour"),
        ({"action": "cancel", "filter": {}, "spread_seconds": 5}, "spread_seconds"),
        ({"action": "retry", "filter": {}, "spread_seconds": 0}, "spread_seconds"),
    ],
)
def test_a_bad_field_is_named(api: ApiCalls, body: dict[str, Any], field: str) -> None:
    assert error(api.post(PATH, body), 400)["details"][0]["field"] == field


def test_the_leader_does_it(scene: Scene, api: ApiCalls, processes: Processes) -> None:
    jobs = dead(scene, 3)
    path = asked(api, "cancel", {"status": ["pending", "scheduled"]})
    assert api.get(path).get_json()["state"] == "done", "nothing matched"
    path = asked(api, "delete", {})
    processes.scheduler()
    eventually(lambda: api.get(path).get_json()["state"] == "done")
    assert scene.count("jobs", f"id = '{jobs[0]}'") == 0
