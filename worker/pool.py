"""`--processes`: a parent that keeps N worker processes going."""

from __future__ import annotations

import subprocess
import sys
import threading

import structlog

logger = structlog.get_logger(__name__)

WATCH_SECONDS = 0.2
RESTART_PAUSE_SECONDS = 1.0


def run_pool(processes: int, concurrency: int, stopping: threading.Event) -> int:
    """Runs until told to stop; a child that dies is started again. Returns 0 when all children left in order."""
    command = [sys.executable, "-m", "worker", "--processes", "1", "--concurrency", str(concurrency)]
    children = [_start(command) for _ in range(processes)]
    while not stopping.wait(WATCH_SECONDS):
        for place, child in enumerate(children):
            if child.poll() is not None:
                logger.error("worker_process_died", pid=child.pid, exit_status=child.returncode)
                if stopping.wait(RESTART_PAUSE_SECONDS):
                    break
                children[place] = _start(command)
    for child in children:
        child.terminate()
    return max(abs(child.wait()) for child in children)


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl-C reaches the whole group of a terminal, and a child is to be told once.
    return subprocess.Popen(command, start_new_session=True)
