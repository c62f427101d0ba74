"""How gunicorn serves the web program: gevent workers, so that slow senders and readers hold nobody up."""

from __future__ import annotations

from app.config import Settings

settings = Settings.from_env()

bind = f"[{settings.host}]:{settings.port}" if ":" in settings.host else f"{settings.host}:{settings.port}"
workers = settings.web_workers
worker_class = "gevent"
# Connections a worker holds at once; the kernel queues `backlog` more.
worker_connections = 2000
backlog = 2048
# A worker whose loop stands still this long is replaced. Requests themselves have no limit here: reads are cut by the body's size.
timeout = 60
graceful_timeout = int(settings.shutdown_grace_seconds)
keepalive = 30
# Nothing is loaded in the parent: gevent patches each worker before the application and its database driver are imported.
preload_app = False
control_socket_disable = True
proc_name = "punctual-web"
accesslog = None
errorlog = "-"
loglevel = "warning"
