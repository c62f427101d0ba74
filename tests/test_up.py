"""`flask up` as a person meets it: one command, real processes, from the first start to the last."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
import requests

from app.config import child_environment
from tests.eventually import eventually
from tests.processes import ROOT, descendants, free_port, is_alive

NOT_OURS = ("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "ALLOWED_CALLBACK_CIDRS", "PUNCTUAL_ENV", "CI")

IGNORING_SIGINT = ("/bin/sh", "-c", "trap '' INT; exec \"$@\"", "sh")


class Up:
    """One `flask up`, its output and its ports; in the background of a script, it is started with the interrupt ignored."""

    def __init__(self, data_dir: Path, is_in_background: bool = False, **overrides: str) -> None:
        self.data_dir = data_dir
        self.port, self.receiver_port = free_port(), free_port()
        ports = {"PORT": str(self.port), "RECEIVER_PORT": str(self.receiver_port)}
        environment = child_environment(**{"DATA_DIR": str(data_dir), **ports, **overrides})
        for name in NOT_OURS:
            environment.pop(name, None)
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [*(IGNORING_SIGINT if is_in_background else ()), sys.executable, "-m", "flask", "--app", "wsgi", "up"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def output(self) -> str:
        return "".join(self.lines)

    @property
    def credentials(self) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.data_dir / "credentials.json").read_text())
        return found

    def says(self, words: str, timeout: float = 60.0) -> str:
        """The line with `words`, once it is there."""

        def line() -> str | None:
            # Asked before looking: what it wrote last is then not missed.
            is_over = not self._reader.is_alive()
            found = next((line for line in self.lines if words in line), None)
            if is_over and found is None:
                pytest.fail(f"it ended without saying {words!r}:\n{self.output}")
            return found

        found = eventually(line, timeout)
        assert found is not None
        return found

    def get(self, path: str) -> requests.Response:
        key = self.credentials["api_key"]
        return requests.get(f"{self.credentials['url']}{path}", headers={"Authorization": f"Bearer {key}"}, timeout=10)

    def ends(self) -> int:
        """Its exit code, once it is gone."""
        code = self.process.wait(60)
        self._reader.join()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.ends()
        assert self.process.stdout is not None
        self.process.stdout.close()
        # For the report of a test that failed.
        print(self.output)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)


@pytest.fixture
def deep_dir(data_dir: Path) -> Path:
    """Deeper than a Unix socket's path may be long."""
    return data_dir / ("a" * 60) / ("b" * 60) / "var"


@pytest.fixture
def up(deep_dir: Path) -> Iterator[Up]:
    with Up(deep_dir) as started:
        yield started


def processes_named(up: Up, word: str) -> list[int]:
    return [pid for pid in descendants(up.process.pid) if word in Path(f"/proc/{pid}/cmdline").read_text()]


def test_from_nothing_to_a_first_delivered_job_and_back(up: Up, deep_dir: Path) -> None:
    up.says("Started in")
    delivered = up.says("First job delivered")
    assert re.search(r"/hook answered 200, \d+ ms after", delivered)
    arrived = requests.get(f"http://127.0.0.1:{up.receiver_port}/requests", timeout=10).json()
    (job,) = up.get("/v1/jobs").json()
    assert [arrival["headers"]["X-Job-ID"] for arrival in arrived] == [job["id"]]

    assert set(up.credentials) == {"url", "api_key", "username", "password", "database_url", "redis_url"}
    for private in ("credentials.json", "secret_key"):
        assert stat.S_IMODE((deep_dir / private).stat().st_mode) == 0o600

    with Up(deep_dir) as second:
        assert second.ends() == 1
    assert f"One is running on the data folder {deep_dir}" in second.output

    everything = descendants(up.process.pid)
    assert len(everything) >= 8
    up.process.send_signal(signal.SIGTERM)
    assert up.ends() == 0
    assert not [pid for pid in everything if is_alive(pid)]

    before = up.credentials
    with Up(deep_dir) as again:
        again.says("Started in")
        jobs = again.get("/v1/jobs").json()
        kept = again.credentials
    assert [found["id"] for found in jobs][1:] == [job["id"]]
    assert kept == {**before, "url": f"http://127.0.0.1:{again.port}"}


def test_what_dies_is_started_again(up: Up) -> None:
    up.says("Started in")
    (worker,) = processes_named(up, "\0worker\0")
    os.kill(worker, signal.SIGKILL)
    up.says("worker was killed by signal 9")
    up.says("worker was started again")
    assert processes_named(up, "\0worker\0") != [worker]
    (postgres,) = processes_named(up, "/bin/postgres\0")
    os.kill(postgres, signal.SIGKILL)
    up.says("PostgreSQL was started again")
    eventually(lambda: up.get("/healthz").status_code == 200, timeout=20)


def test_when_it_is_killed_nothing_is_left_behind(up: Up, deep_dir: Path) -> None:
    up.says("Started in")
    everything = descendants(up.process.pid)
    up.process.send_signal(signal.SIGKILL)
    up.ends()
    eventually(lambda: not [pid for pid in everything if is_alive(pid)], timeout=40)
    with Up(deep_dir) as again:
        again.says("First job delivered")


@pytest.mark.parametrize("name", ["PORT", "RECEIVER_PORT"])
def test_a_port_in_use_gets_a_plain_sentence(data_dir: Path, name: str) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        Up(data_dir, **{name: str(taken.getsockname()[1])}) as started,
    ):
        assert started.ends() == 1
    assert "cannot be used (Address already in use)" in started.output
    assert f"set {name} to another port" in started.output
    assert "Traceback" not in started.output


def test_a_setting_that_cannot_be_used_gets_a_plain_sentence(data_dir: Path) -> None:
    with Up(data_dir, RETENTION_DAYS="soon") as started:
        assert started.ends() == 1
    assert (
        started.output == "Punctual cannot start. RETENTION_DAYS is 'soon': it takes a whole number from 1 to 36500\n"
    )


def test_ctrl_c_during_the_start_stops_what_was_started(up: Up, deep_dir: Path) -> None:
    eventually((deep_dir / "secret_key").exists, timeout=30)
    everything = descendants(up.process.pid)
    up.process.send_signal(signal.SIGINT)
    assert up.ends() == 0
    assert not [pid for pid in everything if is_alive(pid)]
    assert "Traceback" not in up.output


def test_ctrl_c_is_heard_by_one_that_a_script_put_into_the_background(deep_dir: Path) -> None:
    """A shell without job control starts `command &` with the interrupt ignored."""
    with Up(deep_dir, is_in_background=True) as up:
        up.says("Started in")
        everything = descendants(up.process.pid)
        up.process.send_signal(signal.SIGINT)
        assert up.ends() == 0
    assert not [pid for pid in everything if is_alive(pid)]
    assert "Traceback" not in up.output
