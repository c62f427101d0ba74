"""The demo receiver that `flask up` starts: a program that takes callbacks, and a page that shows what arrived."""

from __future__ import annotations

import argparse
import json
import signal
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType
from urllib.parse import parse_qs, urlsplit

from app.config import Settings
from app.demo_page import STYLE, render
from app.demo_record import Arrival, Record

LONGEST_BODY_BYTES = 8 << 20
LONGEST_WAIT_SECONDS = 300.0
# A default-src of none: nothing that arrived can run or load anything in the page.
PAGE_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'self'", "X-Content-Type-Options": "nosniff"}


class DemoReceiver(ThreadingHTTPServer):
    """Answers by path: /hook 200, /hook-fail 500, /hook-flaky?fails=N, /hook-slow?seconds=S. Listens on 127.0.0.1 unless told otherwise.

    `GET /` is the page, `GET /requests` the same as JSON (oldest first), `DELETE /requests` forgets all.
    Port 0 takes a free one; `port` tells which.
    """

    daemon_threads = True
    # The standard library's 5 refuses a worker that opens a hundred connections at once.
    request_queue_size = 1024

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        super().__init__((host, port), Handler)
        self.record = Record()
        self.stopping = threading.Event()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """Ends slow answers too. To be called from another thread than the one that serves."""
        self.stopping.set()
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    """One connection, kept open over many requests."""

    server: DemoReceiver
    protocol_version = "HTTP/1.1"
    server_version = "punctual-demo"
    disable_nagle_algorithm = True
    # Buffered, so that an answer's head and body leave in one packet.
    wbufsize = 65536
    timeout = 600

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:
            # The caller went away (a deadline passed, say): its connection ends, nothing else does.
            self.close_connection = True

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/":
            self._answer(
                200, render(self.server.record.newest_first(), self.server.record.total), "text/html; charset=utf-8"
            )
        elif url.path == "/style.css":
            self._answer(200, STYLE, "text/css; charset=utf-8")
        elif url.path == "/requests":
            arrivals = [arrival.as_json() for arrival in reversed(self.server.record.newest_first())]
            self._answer(200, json.dumps(arrivals), "application/json")
        else:
            self._take_callback()

    def do_DELETE(self) -> None:
        if urlsplit(self.path).path == "/requests":
            self.server.record.clear()
            self._answer(204, "", "text/plain")
        else:
            self._take_callback()

    def do_POST(self) -> None:
        self._take_callback()

    do_PUT = do_PATCH = do_POST

    def _take_callback(self) -> None:
        arrived_at, started = datetime.now(UTC), time.monotonic()
        body = self._read_body()
        if body is None:
            return
        url = urlsplit(self.path)
        arrival = Arrival(arrived_at, self.command, self.path, dict(self.headers.items()), body)
        self.server.record.add(arrival)
        answer = HOOKS.get(url.path, _unknown)
        arrival.answered = answer(
            self.server, arrival, {name: values[-1] for name, values in parse_qs(url.query).items()}
        )
        arrival.seconds = time.monotonic() - started
        self._answer(arrival.answered, json.dumps({"received": arrival.answered < 300}), "application/json")

    def _read_body(self) -> bytes | None:
        """None when it cannot be read: an error was sent, or the caller is gone."""
        length = self.headers.get("Content-Length", "0")
        is_length = length.isascii() and length.isdigit() and len(length) < 19
        if "Transfer-Encoding" in self.headers or not is_length or int(length) > LONGEST_BODY_BYTES:
            self.send_error(HTTPStatus.LENGTH_REQUIRED if not is_length else HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            self.close_connection = True
            return None
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            self.close_connection = True
            return None
        return body

    def _answer(self, status: int, text: str, content_type: str) -> None:
        body = text.encode("utf-8")
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        if status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(len(body)))
        for name, value in PAGE_HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the page shows what arrived."""


Answer = Callable[[DemoReceiver, Arrival, dict[str, str]], int]


def _succeed(server: DemoReceiver, arrival: Arrival, query: dict[str, str]) -> int:
    return 200


def _fail(server: DemoReceiver, arrival: Arrival, query: dict[str, str]) -> int:
    return 500


def _flaky(server: DemoReceiver, arrival: Arrival, query: dict[str, str]) -> int:
    """500 to the first `fails` calls of a job (2 by default), then 200."""
    return 500 if server.record.count_call(arrival.job_id) <= _number(query, "fails", 2.0) else 200


def _slow(server: DemoReceiver, arrival: Arrival, query: dict[str, str]) -> int:
    """200 after `seconds` (2 by default, 300 at most)."""
    server.stopping.wait(min(_number(query, "seconds", 2.0), LONGEST_WAIT_SECONDS))
    return 200


def _unknown(server: DemoReceiver, arrival: Arrival, query: dict[str, str]) -> int:
    return 404


def _number(query: dict[str, str], name: str, default: float) -> float:
    """At least 0; the default when it is missing or no number."""
    try:
        # In this order a NaN, which is larger than nothing, becomes 0.
        return max(0.0, float(query.get(name, default)))
    except ValueError:
        return default


HOOKS: dict[str, Answer] = {"/hook": _succeed, "/hook-fail": _fail, "/hook-flaky": _flaky, "/hook-slow": _slow}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m app.demo_receiver", description="Takes callbacks and shows them.")
    parser.add_argument("--host", default="127.0.0.1", help="the address it listens on (default 127.0.0.1)")
    receiver = DemoReceiver(Settings.from_env().receiver_port, parser.parse_args().host)

    def stop(number: int, frame: FrameType | None) -> None:
        # shutdown() waits for the serving loop, which is this thread.
        threading.Thread(target=receiver.stop).start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    receiver.serve_forever(poll_interval=0.1)


if __name__ == "__main__":
    main()
