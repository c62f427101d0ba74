"""Showing and rotating a client's signing secret, by call and by command, and what callbacks carry meanwhile."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Connection, text
from standardwebhooks import Webhook, WebhookVerificationError

from app.demo_receiver import DemoReceiver
from app.demo_record import Arrival
from app.instants import parse_instant
from tests.api_calls import ApiCalls, error
from tests.conftest import make_api_key
from tests.factories import now
from tests.processes import Processes
from tests.test_cli import Commands
from tests.test_end_to_end import Api, arrivals
from tests.test_end_to_end import api as running_api

ROTATE = "/v1/signing-secret/rotate"
SECRET = re.compile(r"whsec_[A-Za-z0-9+/]{43}=")
api_of_processes = running_api


@pytest.fixture
def api(client: FlaskClient, api_key: str) -> ApiCalls:
    return ApiCalls(client, api_key)


@pytest.fixture
def flask(app: Flask) -> Commands:
    return Commands(app)


def row(conn: Connection, name: str = "tests") -> Any:
    columns = "signing_secret AS current, previous_signing_secret AS previous, previous_secret_expires_at AS expires_at"
    return conn.execute(text(f"SELECT {columns} FROM clients WHERE name = :name"), {"name": name}).one()


@pytest.mark.parametrize(
    ("body", "hours"), [(None, 24), ({}, 24), ({"grace_hours": 1}, 1), ({"grace_hours": 168.0}, 168)]
)
def test_a_rotation_answers_with_the_new_secret_and_keeps_the_old_one_for_a_while(
    api: ApiCalls, db_conn: Connection, body: Any, hours: int
) -> None:
    stranger = make_api_key(db_conn, "stranger") and row(db_conn, "stranger")
    before = row(db_conn)
    answer = api.post(ROTATE, body) if body is not None else api.call("POST", ROTATE)
    told = answer.get_json()
    assert answer.status_code == 200 and set(told) == {"secret", "previous_expires_at"}
    assert answer.headers["Cache-Control"] == "no-store"
    assert SECRET.fullmatch(told["secret"]) and told["secret"] != before.current
    after = row(db_conn)
    assert (after.current, after.previous) == (told["secret"], before.current)
    assert parse_instant(told["previous_expires_at"]) == after.expires_at
    assert abs(after.expires_at - now(db_conn) - timedelta(hours=hours)) < timedelta(minutes=1)
    assert row(db_conn, "stranger") == stranger


def test_without_grace_the_old_secret_is_gone(api: ApiCalls, db_conn: Connection) -> None:
    api.post(ROTATE)
    assert api.post(ROTATE, {"grace_hours": 0}).get_json()["previous_expires_at"] is None
    assert (row(db_conn).previous, row(db_conn).expires_at) == (None, None)


@pytest.mark.parametrize("hours", [-1, 169, 1.5, "24", True, None])
def test_other_grace_times_are_refused(api: ApiCalls, db_conn: Connection, hours: object) -> None:
    before = row(db_conn)
    assert "grace_hours" in error(api.post(ROTATE, {"grace_hours": hours}), 400)["message"]
    assert row(db_conn) == before


def test_the_command_shows_and_rotates(flask: Commands, api_key: str, db_conn: Connection) -> None:
    shown = flask("secret", "show", "--client-name", "tests")
    assert (shown.exit_code, shown.stdout.strip(), shown.stderr) == (0, row(db_conn).current, "")
    rotated = flask("secret", "rotate", "--client-name", "tests", "--grace-hours", "2")
    assert rotated.exit_code == 0 and rotated.stdout.strip() == row(db_conn).current != shown.stdout.strip()
    assert row(db_conn).expires_at.strftime("%Y-%m-%dT%H:%M:%SZ") in rotated.stderr
    assert flask("secret", "show", "--client-name", "tests").output == rotated.output
    assert flask("secret", "rotate", "--client-name", "tests", "--grace-hours", "0").stderr == ""


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (["show"], 2, "--client-name"),
        (["show", "--client-name", "nobody"], 1, "no client nobody"),
        (["rotate", "--client-name", "nobody"], 1, "no client nobody"),
        (["rotate", "--client-name", "tests", "--grace-hours", "169"], 1, "0 to 168 hours"),
        (["rotate", "--client-name", "tests", "--grace-hours", "99999999999999999999"], 1, "0 to 168 hours"),
        (["rotate", "--client-name", "tests", "--grace-hours", "x"], 2, "integer"),
    ],
)
def test_bad_calls_of_the_command_get_a_sentence(
    flask: Commands, api_key: str, db_conn: Connection, arguments: list[str], exit_code: int, words: str
) -> None:
    before = row(db_conn)
    result = flask("secret", *arguments)
    assert (result.exit_code, words in result.output) == (exit_code, True)
    assert row(db_conn) == before


def test_rotations_are_on_record_without_the_secret(
    api: ApiCalls, flask: Commands, api_key: str, db_conn: Connection
) -> None:
    api.post(ROTATE, {"grace_hours": 3})
    flask("secret", "rotate", "--client-name", "tests")
    flask("secret", "show", "--client-name", "tests")
    rows = db_conn.execute(text("SELECT * FROM audit_log ORDER BY id")).mappings().all()
    assert [(note["actor_kind"], note["actor"], note["action"], note["detail"]) for note in rows] == [
        ("api_key", api_key[:11], "client.rotate_secret", {"grace_hours": 3}),
        ("command", "flask secret rotate", "client.rotate_secret", {"grace_hours": 24}),
    ]
    assert "whsec_" not in str(rows)


def test_both_signatures_are_sent_for_the_grace_time_and_one_after_it(
    api_of_processes: Api, processes: Processes, receiver: DemoReceiver, db_conn: Connection
) -> None:
    api = api_of_processes
    processes.worker()

    def delivered() -> Arrival:
        job_id = api.submit(f"{receiver.url}/hook", payload={"é": 10**20})["id"]
        api.wait_for(job_id, "done")
        [arrival] = arrivals(receiver, job_id)
        return arrival

    def verified(arrival: Arrival) -> Callable[[str], bool]:
        def by(secret: str) -> bool:
            try:
                Webhook(secret).verify(arrival.body, {name.lower(): value for name, value in arrival.headers.items()})
            except WebhookVerificationError:
                return False
            return True

        return by

    first = row(db_conn).current
    assert verified(delivered())(first)
    second = api.call("POST", ROTATE, json={"grace_hours": 1}).json()["secret"]
    arrival = delivered()
    assert len(arrival.header("webhook-signature").split()) == 2
    assert [verified(arrival)(secret) for secret in (first, second)] == [True, True]
    # The grace time ends.
    db_conn.execute(text("UPDATE clients SET previous_secret_expires_at = punctual_now()"))
    arrival = delivered()
    assert [verified(arrival)(secret) for secret in (first, second)] == [False, True]
    third = api.call("POST", ROTATE, json={"grace_hours": 0}).json()["secret"]
    assert [verified(delivered())(secret) for secret in (second, third)] == [False, True]
