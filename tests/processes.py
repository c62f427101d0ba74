"""Real web, worker and scheduler processes on the tests' stores, for the `processes` fixture."""

from __future__ import annotations

import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import requests

from app.child import Child
from app.config import child_environment
from app.undertaker import Undertaker
from tests.eventually import eventually

ROOT = Path(__file__).resolve().parent.parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that ended and was not reaped does not."""
    stat = _stat(pid)
    return stat is not None and stat[0] != "Z"


def descendants(pid: int) -> list[int]:
    """The processes below `pid`, at any depth."""
    parents = {int(path.name): stat[1] for path in Path("/proc").glob("[0-9]*") if (stat := _stat(int(path.name)))}
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if int(parent) == one]
    return found[1:]


def _stat(pid: int) -> list[str] | None:
    """State, parent and so on; None when there is no such process."""
    try:
        # The name before it, in brackets, may hold anything.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


@dataclass
class Processes:
    """Starts programs of this repository and remembers them. Overrides are environment variables, as in `worker(LOG_LEVEL="debug")`."""

    database_url: str
    redis_url: str
    logs: Path
    undertaker: Undertaker
    children: list[Child] = field(default_factory=list)

    def web(self, **overrides: str) -> str:
        """Starts gunicorn on a free port and waits until it is healthy. Returns its address."""
        port = overrides.setdefault("PORT", str(free_port()))
        child = self.start("web", "-m", "gunicorn", "-c", "gunicorn.conf.py", "wsgi:app", **overrides)
        url = f"http://127.0.0.1:{port}"

        def is_healthy() -> bool:
            if not child.is_running:
                pytest.fail(f"web ended with exit code {child.exit_code}:\n{child.log_end()}")
            try:
                return requests.get(f"{url}/healthz", timeout=5).status_code == 200
            except requests.RequestException:
                return False

        eventually(is_healthy, timeout=30)
        return url

    def worker(self, *arguments: str, **overrides: str) -> Child:
        return self.start("worker", "-m", "worker", *arguments, **overrides)

    def scheduler(self, **overrides: str) -> Child:
        return self.start("scheduler", "-m", "scheduler", **overrides)

    def start(self, name: str, *arguments: str, **overrides: str) -> Child:
        """Starts Python with `arguments` in the repository's root."""
        env = child_environment(
            **{
                "DATABASE_URL": self.database_url,
                "REDIS_URL": self.redis_url,
                "SECRET_KEY": "of the tests",
                "PUNCTUAL_ENV": "local",
                "WEB_WORKERS": "1",
                "PYTHONTZPATH": "",
                **overrides,
            }
        )
        log = self.logs / f"{name}-{len(self.children)}.log"
        child = Child(name, [sys.executable, *arguments], env=env, log=log, undertaker=self.undertaker, cwd=ROOT)
        child.start()
        self.children.append(child)
        return child

    def stop(self) -> None:
        for child in self.children:
            child.ask_to_stop()
        for child in self.children:
            child.finish()

    def show_logs(self) -> None:
        """Prints every log, for the report of a test that failed."""
        for child in self.children:
            print(f"--- {child.log.name} (exit code {child.exit_code})")
            print(child.log.read_text(errors="replace")[-20_000:])
