"""`python -m worker`: one worker process, or several under a parent that starts again what dies."""

from __future__ import annotations

import argparse
import dataclasses
import resource
import sys

from app import crash_points
from app.config import ConfigurationError, Settings
from app.error_reports import start_error_reports
from app.logs import configure_logging
from app.process import stop_on_signals
from worker.pool import run_pool
from worker.run import Worker


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m worker", description="Makes the calls of jobs that are due.")
    parser.add_argument("--concurrency", type=int, help="callbacks in flight per process (default 128)")
    parser.add_argument("--processes", type=int, help="worker processes (default 1)")
    arguments = parser.parse_args()
    try:
        settings = Settings.from_env()
        settings.require_stores()
    except ConfigurationError as error:
        print(f"worker: {error}", file=sys.stderr)
        return 2
    concurrency = arguments.concurrency or settings.worker_concurrency
    processes = arguments.processes or settings.worker_processes
    if not (1 <= concurrency <= 20_000 and 1 <= processes <= 64):
        parser.error("--concurrency takes 1 to 20000, --processes 1 to 64")
    settings = dataclasses.replace(settings, worker_concurrency=concurrency, worker_processes=processes)
    configure_logging(settings)
    _raise_file_limit()
    crash_points.arm(dict(settings.crash_points))
    stopping = stop_on_signals()
    if processes > 1:
        return run_pool(settings, stopping)
    try:
        start_error_reports(settings, "worker")
        worker = Worker(settings, stopping)
    except ConfigurationError as error:
        print(f"worker: {error}", file=sys.stderr)
        return 2
    return worker.run()


def _raise_file_limit() -> None:
    """Each call in flight holds a socket: takes as many descriptors as the system lets this process have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    sys.exit(main())
