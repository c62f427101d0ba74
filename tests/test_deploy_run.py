"""The commands of deploy/, run as a container runs them: the image's files read-only, another user, secrets in files, /tmp alone to write."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from sqlalchemy import Connection, make_url, text

from app.child import Child
from app.demo_receiver import DemoReceiver
from app.embedded import EmbeddedStores
from tests.chaos.proxy import Proxy
from tests.deployed import BEFORE_STOP, COMMANDS, DEPLOY, HEALTHCHECK, compose, copies, image_environment, last_stage
from tests.eventually import eventually
from tests.other_user import AS_NOBODY, NOBODY, make_programs
from tests.processes import ROOT, free_port

DATABASE = "deployed"


class Host:
    """A folder that stands for the image and the places that are mounted into it, and what was started there."""

    def __init__(self, folder: Path, stores: EmbeddedStores) -> None:
        self.image, self.scratch, self.secrets = folder / "image", folder / "scratch", folder / "secrets"
        self.logs = folder / "logs"
        self._stores = stores
        self._children: list[Child] = []
        self._programs = make_programs(folder, ("flask", "gunicorn"))
        self._make_image()
        self._make_secrets(folder / "made")
        self.logs.mkdir()
        self.scratch.mkdir()
        if NOBODY is not None:
            os.chown(self.scratch, NOBODY, NOBODY)
        self.port = free_port()

    def _make_image(self) -> None:
        """What the Dockerfile copies and compiles, and not a bit to write with."""
        self.image.mkdir()
        for sources, target in copies():
            for source in sources:
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, self.image / target, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(ROOT / source, self.image / target)
        for name, argument in last_stage():
            if name == "RUN" and argument.startswith("["):
                subprocess.run([sys.executable, *json.loads(argument)[1:]], cwd=self.image, check=True)
        self.files = set(self.image.rglob("*"))
        for path in (self.image, *self.files):
            path.chmod(0o555 if path.is_dir() else 0o444)

    def _make_secrets(self, made: Path) -> None:
        """Those of make-secrets; but the stores are the tests', reached over TCP, for their sockets are their owner's alone."""
        subprocess.run([str(DEPLOY / "make-secrets"), str(made)], check=True, capture_output=True)
        shutil.copytree(made, self.secrets)
        self.secrets.chmod(0o755)
        url = make_url(self._stores.database_url)
        postgres = Proxy(Path(str(url.query["host"]), ".s.PGSQL.5432"))
        redis = Proxy(Path(self._stores.redis_url.removeprefix("unix://").partition("?")[0]))
        distant = url.set(host="127.0.0.1", port=postgres.port, query={}, database=DATABASE)
        for name, value in (
            ("database_url", distant.render_as_string(hide_password=False)),
            ("redis_url", f"redis://127.0.0.1:{redis.port}/0"),
        ):
            (self.secrets / name).unlink()
            (self.secrets / name).write_text(value + "\n")

    def environment(self, service: str, **changes: str) -> dict[str, str]:
        """The image's and the service's, with what is mounted or given out here in its place. Nothing of this process's own."""
        told = {**image_environment(), **compose()["services"][service]["environment"]}
        told = {name: value.replace("/run/secrets", str(self.secrets)) for name, value in told.items()}
        return {
            **told,
            **self._programs,
            "DATA_DIR": str(self.scratch / "punctual"),
            "TMPDIR": str(self.scratch),
            "HOST": "127.0.0.1",
            "PORT": str(self.port),
            "REDIS_PREFIX": DATABASE,
            "ALLOWED_CALLBACK_CIDRS": "127.0.0.0/8",
            **changes,
        }

    def run(self, command: list[str], service: str, **changes: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.image,
            env=self.environment(service, **changes),
            **AS_NOBODY,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def start(self, name: str, command: list[str], service: str, **changes: str) -> Child:
        child = Child(
            name,
            command,
            env=self.environment(service, **changes),
            log=self.logs / f"{name}.log",
            undertaker=self._stores.undertaker,
            user=NOBODY,
            cwd=self.image,
        )
        child.start()
        self._children.append(child)
        return child

    def stop(self) -> None:
        for child in self._children:
            child.ask_to_stop()
        for child in self._children:
            child.finish()
        # So that pytest can remove it.
        for path in (self.image, *self.image.rglob("*")):
            path.chmod(0o755)


@pytest.fixture
def host(tmp_path: Path, stores: EmbeddedStores, db_conn: Connection) -> Iterator[Host]:
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    db_conn.execute(text(f"CREATE DATABASE {DATABASE}"))
    host = Host(tmp_path, stores)
    yield host
    host.stop()
    db_conn.execute(text(f"DROP DATABASE {DATABASE} WITH (FORCE)"))


def test_an_unprivileged_user_runs_everything_from_a_read_only_tree(host: Host, receiver: DemoReceiver) -> None:
    """One test, for starting the programs takes seconds: migrations, a key, a job that is delivered, health, a stop."""
    assert host.run(["sh", "-c", "touch app/x || touch x"], "web").returncode != 0
    migrate(host)
    key = make_key(host)
    probes = {name: str(free_port()) for name in ("worker", "scheduler")}
    web = host.start("web", COMMANDS["web"], "web")
    others = {name: host.start(name, COMMANDS[name], name, PROBE_PORT=port) for name, port in probes.items()}
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {key}"
        url = f"http://127.0.0.1:{host.port}"
        eventually(lambda: status(session, f"{url}/readyz") == 200, timeout=30)
        body = {"type": "first", "payload": {"to": "ada"}, "callback_url": f"{receiver.url}/hook"}
        job = session.post(f"{url}/v1/jobs", json=body, timeout=10).json()
        eventually(lambda: session.get(f"{url}/v1/jobs/{job['id']}", timeout=10).json()["status"] == "done", timeout=20)
        assert [arrival.job_id for arrival in receiver.record.newest_first()] == [job["id"]]
        later = session.post(f"{url}/v1/jobs", json={**body, "delay_seconds": 1}, timeout=10).json()
        eventually(
            lambda: session.get(f"{url}/v1/jobs/{later['id']}", timeout=10).json()["status"] == "done", timeout=20
        )
        for name, port in probes.items():
            eventually(lambda port=port: status(session, f"http://127.0.0.1:{port}/readyz") == 200)
            assert host.run(HEALTHCHECK, name, PROBE_PORT=port).returncode == 0
        assert host.run(HEALTHCHECK, "web").returncode == 0
        leaving = host.start("before-stop", BEFORE_STOP, "web")
        eventually(lambda: status(session, f"{url}/readyz") == 503)
        assert status(session, f"{url}/livez") == 200
        leaving.kill()
    for name, child in {"web": web, **others}.items():
        assert child.stop() and child.exit_code == 0, child.log_end()
        assert host.run(HEALTHCHECK, name, **({"PROBE_PORT": probes[name]} if name in probes else {})).returncode == 1
    assert (host.scratch / "punctual" / "leaving").exists()
    again = host.start("web-again", COMMANDS["web"], "web")
    eventually(lambda: status(requests, f"{url}/readyz") == 200, timeout=30)
    assert again.stop()
    assert set(host.image.rglob("*")) == host.files


def status(session: requests.Session | type[requests], url: str) -> int:  # type: ignore[valid-type]
    """0 while nobody answers."""
    try:
        return int(session.get(url, timeout=5).status_code)
    except requests.RequestException:
        return 0


def migrate(host: Host) -> None:
    """Migrations from nothing, started twice at once as two hosts may."""
    both = [host.start(f"migrate-{number}", COMMANDS["migrate"], "migrate") for number in (1, 2)]
    for child in both:
        assert child.finish(60) and child.exit_code == 0, child.log_end(30)


def make_key(host: Host) -> str:
    made = host.run(["flask", "--app", "wsgi", "apikey", "create", "--client-name", "first"], "web")
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()
