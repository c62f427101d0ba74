"""How gunicorn serves the web program: gevent workers, so that slow senders and readers hold nobody up."""

from __future__ import annotations

import sys
from typing import Any

from app.config import ConfigurationError, Settings
from app.metric_files import choose_directory, fold

try:
    settings = Settings.from_env()
except ConfigurationError as error:
    sys.exit(f"Punctual cannot start. {error}")

bind = f"[{settings.host}]:{settings.port}" if ":" in settings.host else f"{settings.host}:{settings.port}"
workers = settings.web_workers
worker_class = "gevent"
# Connections a worker holds at once; the kernel queues `backlog` more.
worker_connections = 2000
backlog = 2048
# A worker whose loop stands still this long is replaced. Requests themselves have no limit here: reads are cut by the body's size.
timeout = 60
graceful_timeout = int(settings.shutdown_grace_seconds)
# An idle connection holds up the stop of its worker for so long.
keepalive = 5
# Nothing is loaded in the parent: gevent patches each worker before the application and its database driver are imported.
preload_app = False
control_socket_disable = True
proc_name = "punctual-web"
accesslog = None
errorlog = "-"
loglevel = "warning"

# Each web process counts in files of its own; nothing may import prometheus_client before it knows where.
metrics_dir = choose_directory(settings.data_dir)
raw_env = [f"PROMETHEUS_MULTIPROC_DIR={metrics_dir}"]


def on_starting(server: Any) -> None:
    """Adds what earlier processes counted to the totals, so that these never jump back. An earlier stop is over."""
    fold(metrics_dir)
    settings.leaving_file.unlink(missing_ok=True)
