"""`--processes`: a parent that keeps N worker processes going."""

from __future__ import annotations

import subprocess
import sys
import threading

import structlog

from app.config import Settings, child_environment

logger = structlog.get_logger(__name__)

WATCH_SECONDS = 0.2
RESTART_PAUSE_SECONDS = 1.0


def run_pool(settings: Settings, stopping: threading.Event) -> int:
    """Runs until told to stop; a child that dies is started again. Returns 0 when all children left in order.

    The first child answers on PROBE_PORT, the next one on the port after it, and so on.
    """
    command = [sys.executable, "-m", "worker", "--processes", "1", "--concurrency", str(settings.worker_concurrency)]
    environments = [_environment(settings.probe_port, place) for place in range(settings.worker_processes)]
    children = [_start(command, environment) for environment in environments]
    while not stopping.wait(WATCH_SECONDS):
        for place, child in enumerate(children):
            if child.poll() is not None:
                logger.error("worker_process_died", pid=child.pid, exit_status=child.returncode)
                if stopping.wait(RESTART_PAUSE_SECONDS):
                    break
                children[place] = _start(command, environments[place])
    for child in children:
        child.terminate()
    return max(abs(child.wait()) for child in children)


def _environment(probe_port: int | None, place: int) -> dict[str, str]:
    if probe_port is None:
        return child_environment()
    return child_environment(PROBE_PORT=str(probe_port + place), PROBE_PORT_FILE="")


def _start(command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl-C reaches the whole group of a terminal, and a child is to be told once.
    return subprocess.Popen(command, start_new_session=True, env=environment)
