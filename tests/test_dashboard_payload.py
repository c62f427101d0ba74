"""A job's payload as it was sent, its request as text and as curl, and the times of its attempts."""

from __future__ import annotations

import shlex
import subprocess
from typing import Any
from uuid import UUID

import pytest
import redis
from flask import Flask
from sqlalchemy import Connection, Engine

from app import request_text
from app.dashboard.attempt_times import phases
from app.dashboard.json_text import pretty
from app.jobs import queries
from app.jobs.planned import planned_attempts
from tests.factories import Scene
from tests.pages import Person
from tests.programs import requires_program
from tests.test_dashboard_job import code_blocks


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


@pytest.fixture
def ada(app: Flask) -> Person:
    return Person(app, "ada", "operator")


@pytest.mark.parametrize(
    ("raw", "laid_out"),
    [
        ("9007199254740993", "9007199254740993"),
        (
            '{"id":12345678901234567890123,"x":1.10,"e":1E400}',
            '{\n  "id": 12345678901234567890123,\n  "x": 1.10,\n  "e": 1E400\n}',
        ),
        ('{"a":{},"b":[],"c":[1,[2]]}', '{\n  "a": {},\n  "b": [],\n  "c": [\n    1,\n    [\n      2\n    ]\n  ]\n}'),
        (r'"\u0041 \" {,:} \\"', r'"\u0041 \" {,:} \\"'),
        (" [ ]\n", "[]"),
    ],
)
def test_a_payload_is_laid_out_with_its_very_characters(raw: str, laid_out: str) -> None:
    assert pretty(raw) == laid_out


def test_shows_large_integers_as_they_were_sent(scene: Scene, ada: Person) -> None:
    job = scene.job(payload='{"id": 9007199254740993, "big": 123456789012345678901234567890}')
    page = ada.get(f"/jobs/{job}")
    assert "9007199254740993" in page and "123456789012345678901234567890" in page


def test_a_large_payload_is_shown_in_part_and_downloaded_whole(scene: Scene, ada: Person) -> None:
    payload = '"' + "x" * 200_000 + '"'
    job = scene.job(payload=payload, payload_bytes=len(payload))
    page = ada.get(f"/jobs/{job}")
    assert len(page) < 120_000 and "The first 64 KB" in page
    answer = ada.open(f"/jobs/{job}/payload")
    assert answer.text == payload
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_the_download_has_the_very_bytes(scene: Scene, ada: Person) -> None:
    payload = '{ "a" : 1.0 , "é": "\u202e" }'
    assert ada.open(f"/jobs/{scene.job(payload=payload)}/payload").data == payload.encode()


@pytest.mark.parametrize("payload", ['{"a": "it\'s $HOME `id` \\\\ !"}', '"@file"', '"é\n"', "null"])
def test_the_curl_command_sends_the_same_in_a_real_shell(scene: Scene, ada: Person, payload: str) -> None:
    shell = requires_program("sh")
    url = "https://api.example.com/in?a='b'&c=$(id)"
    job = scene.job(type="it's; rm -rf /", payload=payload, callback_url=url)
    command = next(block for block in code_blocks(ada.get(f"/jobs/{job}")) if block.startswith("curl "))
    script = "curl() { printf '%s\\0' \"$@\"; }\n" + command
    arguments = subprocess.run([shell, "-c", script], capture_output=True, check=True, text=True).stdout.split("\0")[
        :-1
    ]
    assert arguments[arguments.index("--data-raw") + 1] == payload
    assert url in arguments
    assert f"X-Job-ID: {job}" in arguments and "X-Job-Type: it's; rm -rf /" in arguments


def test_a_long_payload_is_left_to_a_file() -> None:
    command = request_text.curl("https://example.com/", [], "x" * 100_000)
    assert len(command) < 200 and shlex.split(command)[-1] == "@payload.json"


def test_request_headers_stand_on_lines_of_their_own() -> None:
    fields = request_text.headers(UUID(int=1), "a\r\nX-Evil: 1 é", 2, 5)
    text_lines = request_text.lines("https://h/p?q", fields, 10).split("\n")
    assert text_lines[0] == "POST /p?q HTTP/1.1" and "X-Job-Type: a%0D%0AX-Evil: 1 %C3%A9" in text_lines


@pytest.mark.parametrize(
    ("timings", "expected"),
    [
        (
            {"dns": 1, "connect": 3, "tls": 10, "first_byte": 30, "total": 31},
            [("DNS", 1), ("Connect", 2), ("TLS", 7), ("First byte", 20), ("Body", 1)],
        ),
        ({"connect": 3, "total": 10_000}, [("Connect", 3), ("Wait", 9997)]),
        ({"total": 5}, [("Wait", 5)]),
        ({"dns": 2, "connect": 2, "first_byte": 5, "total": 5}, [("DNS", 2), ("First byte", 3)]),
        ({"dns": "x", "total": None, "connect": True}, []),
        ({}, []),
    ],
)
def test_phases_add_up_to_the_total(timings: dict[str, Any], expected: list[tuple[str, float]]) -> None:
    assert phases(timings) == expected


def test_planned_attempts_follow_the_policy(scene: Scene, engine: Engine) -> None:
    job = queries.get_job(engine, None, scene.job(status="scheduled", attempts=1, max_attempts=5))
    assert job is not None
    assert [(each.attempt, each.wait_seconds) for each in planned_attempts(job)] == [(3, 2.0), (4, 4.0), (5, 8.0)]
    fresh = queries.get_job(engine, None, scene.job(status="pending", max_attempts=3))
    assert fresh is not None and [(each.attempt, each.wait_seconds) for each in planned_attempts(fresh)] == [
        (2, 1.0),
        (3, 2.0),
    ]
    done = queries.get_job(engine, None, scene.job(status="done"))
    assert done is not None and planned_attempts(done) == []
