"""A payload's bytes are fixed at submit: the same on every attempt, and signed so, whatever stands in between."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
import redis
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine, text
from standardwebhooks import Webhook

from app import jobs
from app.jobs import ToRecord
from app.outcomes import decide
from tests.api_calls import ApiCalls
from tests.conftest import make_api_key
from tests.delivery import answering, receiver, running_deliverer, split
from tests.factories import Scene

FAILED = b"HTTP/1.1 500 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
PAYLOADS = [
    '{"b": 1, "a": {"d": 2, "c": 3}, "B": 4}',
    '{"n": 12345678901234567890123456789012345678901234567890, "m": -0, "f": 1.10}',
    '{"n": 1.0, "m": 1e2, "z": 0.1000000000000000055511151231257827}',
    '"\\u0000\\u0001 and a \\/ and \\u00e9 and é and \\ud83d\\ude00 and 😀"',
    '{ "spaces" :\t[ 1 ,\n 2 ] }',
    '{"": "", " ": null}',
    "[]",
    "null",
    "false",
]
BODIES = [
    ("<?xml version='1.0'?>\r\n<é/>\n", "application/xml; charset=utf-8"),
    (" a=1&b=%00 ", "application/x-www-form-urlencoded"),
    ("", "text/plain"),
    ('{"b":1}', 'application/vnd.x+json;profile="a b"'),
]
GIVEN = [(f'"payload": {payload}', payload, "application/json") for payload in PAYLOADS]
GIVEN += [(f'"body": {json.dumps(body)}, "content_type": {json.dumps(kind)}', body, kind) for body, kind in BODIES]


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


@pytest.mark.parametrize(("member", "sent", "content_type"), GIVEN)
def test_every_attempt_sends_and_signs_what_was_submitted(
    client: FlaskClient, scene: Scene, member: str, sent: str, content_type: str
) -> None:
    api = ApiCalls(client, make_api_key(scene.conn, "payloads"))
    with receiver(answering(FAILED)) as made, running_deliverer() as delivery:
        answer = api.send(f'{{"type": "t", "callback_url": "{made.url}", "max_attempts": 3, {member}}}'.encode())
        assert answer.status_code == 201, answer.get_data(as_text=True)
        [row] = scene.all("jobs")
        for number in (1, 2, 3):
            scene.change(row["id"], run_at=scene.now())
            worker = scene.worker()
            [claim] = scene.claim(row["id"], worker=worker)
            assert claim.number == number
            delivery.deliverer.submit([claim])
            _, ended = delivery.wait(number)[-1]
            jobs.record(scene.conn, [ToRecord(decide(claim, ended, scene.now(), 0.0), worker)])
    secret = scene.conn.execute(text("SELECT signing_secret FROM clients WHERE name = 'payloads'")).scalar_one()
    requests = [split(request) for request in made.requests]
    assert [body for _, _, body in requests] == [sent.encode()] * 3
    for attempt, (_, headers, _) in enumerate(requests, 1):
        fields = {name.lower(): value for name, value in headers}
        assert (fields["content-type"], fields["x-job-attempt"]) == (content_type, str(attempt))
        assert fields["content-length"] == str(len(sent.encode()))
        # By the reference library. Its verify() would read the body as JSON, and the time against this host's clock.
        at = datetime.fromtimestamp(int(fields["webhook-timestamp"]), UTC)
        assert fields["webhook-signature"] == Webhook(secret).sign(fields["webhook-id"], at, sent)
    assert len({dict(headers)["webhook-id"] for _, headers, _ in requests}) == 1
