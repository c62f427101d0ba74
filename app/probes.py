"""What a worker or scheduler tells an orchestrator and Prometheus over HTTP.

`/livez` asks nobody: a store that is away is no reason to start a process again. `/readyz` asks the stores, and whether the
database has the migrations of this release. `/metrics` is what this process counts. Web has all three among its own routes.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from app.config import Settings
from app.health import Check, make_checks, stores_away
from app.meters.token import WANTS_TOKEN, carries_token

logger = structlog.get_logger(__name__)


def serve(settings: Settings, is_alive: Callable[[], bool], registry: CollectorRegistry) -> ThreadingHTTPServer | None:
    """Answers on PROBE_PORT from a thread of its own; None when no port is set. Raises OSError when it cannot be had."""
    if settings.probe_port is None:
        return None
    server = ThreadingHTTPServer(
        (settings.host, settings.probe_port), _handler(settings, make_checks(settings), is_alive, registry)
    )
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="probes", daemon=True).start()
    logger.info("probes_served", port=server.server_port)
    return server


def _handler(
    settings: Settings, checks: list[Check], is_alive: Callable[[], bool], registry: CollectorRegistry
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "punctual", ""

        def do_GET(self) -> None:
            if self.path == "/livez":
                lives = is_alive()
                self._answer(200 if lives else 503, {"status": "ok" if lives else "stuck"})
            elif self.path == "/readyz":
                away = stores_away(checks)
                self._answer(*((503, {"status": "unavailable", "away": away}) if away else (200, {"status": "ok"})))
            elif self.path == "/metrics":
                self._metrics()
            else:
                words = "There are /livez, /readyz and /metrics here."
                self._answer(404, {"error": {"code": "not_found", "message": words}})

        def _metrics(self) -> None:
            if not carries_token(self.headers.get("Authorization", ""), settings.metrics_token):
                self._answer(401, {"error": {"code": "unauthorized", "message": WANTS_TOKEN}})
                return
            encode, content_type = choose_encoder(self.headers.get("Accept", ""))
            self._send(200, content_type, encode(registry))

        def _answer(self, status: int, body: dict[str, object]) -> None:
            self._send(status, "application/json", json.dumps(body).encode())

        def _send(self, status: int, content_type: str, data: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Orchestrators ask every few seconds: nothing to note."""

    return Handler
