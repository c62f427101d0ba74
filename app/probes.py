"""What a worker or scheduler tells an orchestrator over HTTP: whether it lives, and whether it is ready.

`/livez` asks nobody: a store that is away is no reason to start a process again. `/readyz` asks the stores, and whether the
database has the migrations of this release. Web has both among its own routes.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import structlog

from app.config import Settings
from app.health import Check, make_checks, stores_away

logger = structlog.get_logger(__name__)


def serve(settings: Settings, is_alive: Callable[[], bool]) -> ThreadingHTTPServer | None:
    """Answers on PROBE_PORT from a thread of its own; None when no port is set. Raises OSError when it cannot be had."""
    if settings.probe_port is None:
        return None
    server = ThreadingHTTPServer((settings.host, settings.probe_port), _handler(make_checks(settings), is_alive))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="probes", daemon=True).start()
    logger.info("probes_served", port=server.server_port)
    return server


def _handler(checks: list[Check], is_alive: Callable[[], bool]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "punctual", ""

        def do_GET(self) -> None:
            if self.path == "/livez":
                lives = is_alive()
                self._answer(200 if lives else 503, {"status": "ok" if lives else "stuck"})
            elif self.path == "/readyz":
                away = stores_away(checks)
                self._answer(*((503, {"status": "unavailable", "away": away}) if away else (200, {"status": "ok"})))
            else:
                self._answer(404, {"error": {"code": "not_found", "message": "There are /livez and /readyz here."}})

        def _answer(self, status: int, body: dict[str, object]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Orchestrators ask every few seconds: nothing to note."""

    return Handler
