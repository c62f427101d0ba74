"""The processes: stores, web, workers, schedulers and the receiver; what dies is started again."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import redis
import requests
from sqlalchemy import make_url

from app.child import Child
from app.config import child_environment
from app.embedded import EmbeddedStores
from tests.chaos.proxy import Proxy
from tests.processes import ROOT, free_port

WATCH_SECONDS = 0.5
CRASHING = "claimed:0.002,answered:0.002,recorded:0.002,before_acknowledge:0.002"


@dataclass
class Fleet:
    """`deaths` counts processes that ended without being asked to, by kind. `is_sound`: none has crash points, a distant store or a wrong clock."""

    folder: Path
    stores: EmbeddedStores
    is_sound: bool = False
    web_ports: list[int] = field(default_factory=lambda: [free_port(), free_port()])
    receiver_port: int = field(default_factory=free_port)
    deaths: dict[str, int] = field(default_factory=dict)
    children: dict[str, Child] = field(default_factory=dict)

    @classmethod
    def start(cls, is_sound: bool = False) -> Fleet:
        folder = Path(tempfile.mkdtemp(prefix="punctual-chaos-"))
        folder.chmod(0o755)
        stores = EmbeddedStores.in_folder(folder / "data")
        stores.start()
        fleet = cls(folder, stores, is_sound)
        fleet._begin()
        return fleet

    def _begin(self) -> None:
        self.names_file = self.folder / "names"
        self._quiet, self._watching = threading.Event(), threading.Lock()
        self.postgres_proxy = Proxy(self._socket("postgres"))
        self.redis_proxy = Proxy(self._socket("redis"))
        flask = [sys.executable, "-m", "flask", "--app", "wsgi"]
        subprocess.run([*flask, "db", "upgrade"], env=self._env(), cwd=ROOT, check=True, capture_output=True)
        made = subprocess.run(
            [*flask, "apikey", "create", "--client-name", "chaos", "--rate-limit", "1000000"],
            env=self._env(), cwd=ROOT, check=True, capture_output=True, text=True,
        )  # fmt: skip
        self.api_key = next(word for word in made.stdout.split() if word.startswith("pk_"))
        self.requests_file = self.folder / "requests.jsonl"
        self._start("receiver", "-m", "tests.chaos.receiver", str(self.receiver_port), str(self.requests_file))
        for number, port in enumerate(self.web_ports):
            crashing = {"CRASH_POINTS": "submitted:0.002"} if number and not self.is_sound else {}
            self._start(
                f"web-{number}", "-m", "gunicorn", "-c", "gunicorn.conf.py", "wsgi:app", PORT=str(port), **crashing
            )
        distant = {"DATABASE_URL": self._distant_database(), "REDIS_URL": f"redis://127.0.0.1:{self.redis_proxy.port}"}
        if self.is_sound:
            self._start_sound()
        else:
            self._start("worker-0", "-m", "tests.chaos.names", "worker")
            self._start("worker-1", "-m", "tests.chaos.names", "worker", **distant)
            self._start("worker-2", "-m", "tests.chaos.ahead", "worker", CRASH_POINTS=CRASHING)
            self._start("scheduler-0", "-m", "scheduler", CRASH_POINTS="fired:0.02")
            self._start("scheduler-1", "-m", "tests.chaos.ahead", "scheduler", **distant)
        threading.Thread(target=self._watch, daemon=True).start()
        for number in (0, 1):
            self.wait_for_web(number)

    def _start_sound(self) -> None:
        for number in range(3):
            self._start(f"worker-{number}", "-m", "tests.chaos.names", "worker")
        for number in range(2):
            self._start(f"scheduler-{number}", "-m", "scheduler")

    def _socket(self, which: str) -> Path:
        if which == "redis":
            return Path(str(self.stores.redis_url).removeprefix("unix://").partition("?")[0])
        folder = str(make_url(self.stores.database_url).query["host"])
        port = make_url(self.stores.database_url).port or 5432
        return Path(folder) / f".s.PGSQL.{port}"

    def _distant_database(self) -> str:
        url = make_url(self.stores.database_url)
        distant = url.set(host="127.0.0.1", port=self.postgres_proxy.port, query={})
        return distant.render_as_string(hide_password=False)

    def _env(self, **overrides: str) -> dict[str, str]:
        settings = {
            "DATABASE_URL": self.stores.database_url,
            "REDIS_URL": self.stores.redis_url,
            "SECRET_KEY": "of the chaos",
            "PUNCTUAL_ENV": "local",
            "WEB_WORKERS": "1",
            "PYTHONTZPATH": "",
            "CHAOS_NAMES": str(self.names_file),
            "LOG_LEVEL": "warning",
        }
        return child_environment(**{**settings, **overrides})

    def _start(self, name: str, *arguments: str, **overrides: str) -> None:
        child = Child(
            name, [sys.executable, *arguments], env=self._env(**overrides), log=self.folder / f"{name}.log",
            undertaker=self.stores.undertaker, cwd=ROOT,
        )  # fmt: skip
        child.start()
        self.children[name] = child

    def _watch(self) -> None:
        """Starts again what died; the supervisor of a real host does no more."""
        while not self._quiet.wait(WATCH_SECONDS):
            with self._watching:
                for name, child in self.children.items():
                    if not child.is_running:
                        kind = name.partition("-")[0]
                        self.deaths[kind] = self.deaths.get(kind, 0) + 1
                        child.kill()
                        child.start()

    def restart(self, name: str, seconds: float = 30.0) -> bool:
        """Asks one to stop and starts it again. Whether it ended in time."""
        with self._watching:
            child = self.children[name]
            child.ask_to_stop()
            in_time = child.finish(seconds)
            child.start()
        return in_time

    def names(self, kind: str) -> list[str]:
        return [name for name in self.children if name.startswith(kind)]

    def wait_for_web(self, number: int, seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if requests.get(f"http://127.0.0.1:{self.web_ports[number]}/healthz", timeout=5).status_code == 200:
                    return
            except requests.RequestException:
                pass
            time.sleep(0.1)
        raise AssertionError(f"web-{number} is not healthy:\n{self.children[f'web-{number}'].log_end()}")

    def postgres(self) -> psycopg.Connection:
        assert self.stores.postgres is not None
        conn = self.stores.postgres.connect()
        conn.autocommit = True
        return conn

    def redis(self) -> redis.Redis:
        assert self.stores.redis is not None
        return self.stores.redis.connect()

    def stop(self) -> None:
        self._quiet.set()
        with self._watching:
            for child in self.children.values():
                child.ask_to_stop()
            for child in self.children.values():
                child.finish(20)
        self.stores.stop()
