"""docs/receiving.md: its programs, run as they stand, on real signed deliveries; and its table of headers."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import redis
import requests
from sqlalchemy import Connection, Engine, text

from app import jobs
from app.child import Child
from app.demo_receiver import DemoReceiver
from app.demo_record import Arrival
from app.ids import uuid7
from app.signing import new_secret, sign
from app.undertaker import Undertaker
from tests.eventually import eventually
from tests.factories import Scene
from tests.processes import Processes, free_port
from tests.programs import other_language

PAGE = (Path(__file__).resolve().parent.parent / "docs/receiving.md").read_text(encoding="utf-8")
SECRET = new_secret()
FILES = {"python": "receiver.py", "js": "receiver.mjs", "go": "main.go"}


def program(language: str, folder: Path) -> Path:
    """The document's one program in this language, as a file."""
    [code] = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    path = folder / FILES[language]
    path.write_text(code, encoding="utf-8")
    return path


class Example:
    """A running program of the document."""

    def __init__(self, command: list[str], folder: Path, undertaker: Undertaker) -> None:
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}/hook"
        self._log = folder / "receiver.log"
        env = {"WEBHOOK_SECRET": SECRET, "PORT": str(self._port), "DONE_FOLDER": "done", "DATABASE": "done.db"}
        self.child = Child("receiver", command, env=env, log=self._log, undertaker=undertaker, cwd=folder)

    def handled(self) -> list[str]:
        """The ids of what it did, in order."""
        return re.findall(r"handled (\S+)", self._log.read_text())

    def send(self, headers: dict[str, str], body: bytes, method: str = "POST") -> int:
        return requests.request(method, self.url, headers=headers, data=body, timeout=10).status_code

    @contextmanager
    def running(self) -> Iterator[None]:
        self.child.start()
        try:
            eventually(self._answers, timeout=20)
            yield
        finally:
            self.child.ask_to_stop()
            self.child.finish()

    def _answers(self) -> bool:
        assert self.child.is_running, self._log.read_text()
        try:
            return requests.get(self.url, timeout=5).status_code == 401
        except requests.ConnectionError:
            return False


@pytest.fixture(params=["python", "js"])
def example(request: pytest.FixtureRequest, tmp_path: Path, processes: Processes) -> Iterator[Example]:
    interpreter = sys.executable if request.param == "python" else other_language("node")
    made = Example([interpreter, str(program(request.param, tmp_path))], tmp_path, processes.undertaker)
    with made.running():
        yield made


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection, processes: Processes) -> Scene:
    """With a worker, and a client that has the programs' secret."""
    scene = Scene.on(engine, redis_client, db_conn)
    db_conn.execute(text("UPDATE clients SET signing_secret = :secret"), {"secret": SECRET})
    processes.worker()
    return scene


def deliver(scene: Scene, url: str, **fields: Any) -> UUID:
    """A job's id, once it has ended."""
    job = jobs.submit(scene.stores, scene.request(callback_url=url, max_attempts=1, **fields))
    eventually(lambda: scene.status(job.job_id) in ("done", "dead"), timeout=20)
    return job.job_id


def of(arrival: Arrival, **changes: str) -> dict[str, str]:
    """The headers of a delivery, some of them changed."""
    kept = {name: value for name, value in arrival.headers.items() if name.lower() not in ("host", "content-length")}
    return {**kept, **{name.replace("_", "-"): value for name, value in changes.items()}}


def test_it_takes_what_punctual_sends_once_and_nothing_else(
    example: Example, scene: Scene, receiver: DemoReceiver
) -> None:
    first = deliver(scene, example.url, payload='{"é": "\\u0000", "big": 12345678901234567890}')
    bodyless = deliver(scene, example.url, payload=None, method="GET")
    assert [scene.status(job_id) for job_id in (first, bodyless)] == ["done", "done"]
    assert example.handled() == [str(first), str(bodyless)]

    # The same once more, as a lost answer makes of it.
    copied = deliver(scene, f"{receiver.url}/hook")
    [arrival] = receiver.record.newest_first()
    assert [example.send(of(arrival), arrival.body) for _ in range(3)] == [200, 200, 200]
    assert example.handled()[2:] == [str(copied)]

    # What is not genuine: another body, id, time or signature, and none of each.
    assert example.send(of(arrival), arrival.body + b" ") == 401
    for changes in (
        {"webhook_id": str(uuid7())}, {"webhook_timestamp": str(int(arrival.header("webhook-timestamp")) + 1)},
        {"webhook_timestamp": "9" * 5000}, {"webhook_timestamp": "-1"}, {"webhook_timestamp": ""}, {"webhook_id": ""},
        {"webhook_signature": ""}, {"webhook_signature": "v1,"}, {"webhook_signature": "v1,AAAA caf\u00e9"},
        {"webhook_signature": arrival.header("webhook-signature").replace("v1,", "v2,")},
    ):  # fmt: skip
        assert example.send(of(arrival, **changes), arrival.body) == 401, changes
    assert example.send({}, b"") == 401
    assert len(example.handled()) == 3

    # Another secret.
    scene.conn.execute(text("UPDATE clients SET signing_secret = :secret"), {"secret": new_secret()})
    refused = deliver(scene, example.url)
    assert [row["status_code"] for row in scene.executions(refused)] == [401]
    assert len(example.handled()) == 3


def test_it_refuses_what_is_old_or_from_the_future_and_takes_either_secret_of_a_rotation(example: Example) -> None:
    def status(seconds: int, *secrets: str) -> int:
        job_id, sent_at = str(uuid7()), int(time.time()) + seconds
        signature = sign(secrets or (SECRET,), job_id, sent_at, b"{}")
        headers = {"webhook-id": job_id, "webhook-timestamp": str(sent_at), "webhook-signature": signature}
        return example.send({**headers, "X-Job-Type": "t"}, b"{}")

    assert [status(seconds) for seconds in (-400, -250, 0, 250, 400)] == [401, 200, 200, 200, 401]
    assert [status(0, new_secret(), SECRET), status(0, SECRET, new_secret()), status(0, new_secret())] == [
        200,
        200,
        401,
    ]


def test_go_finds_nothing_wrong_with_its_program(tmp_path: Path) -> None:
    go = other_language("go")
    path = program("go", tmp_path)
    (tmp_path / "go.mod").write_text("module receiver\n\ngo 1.21\n")
    vetted = subprocess.run(
        [go, "vet", path.name], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert (vetted.returncode, vetted.stdout + vetted.stderr) == (0, "")


def test_the_table_names_the_headers_that_punctual_adds(scene: Scene, receiver: DemoReceiver) -> None:
    deliver(scene, f"{receiver.url}/hook")
    [arrival] = receiver.record.newest_first()
    rows = re.findall(r"^\| (`[^|]+`) \|", PAGE, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert named == {name for name in arrival.headers if name not in ("Host", "Content-Length")}
