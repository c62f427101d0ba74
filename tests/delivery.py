"""What the tests of delivery share: a deliverer that keeps what it hands on, claims, and receivers that speak raw TCP."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from uuid import uuid4

from app.attempts import Answer, Claim
from app.clock import Clock
from app.config import Settings
from app.signing import new_secret
from tests.eventually import eventually
from worker.deliverer import Deliverer
from worker.resolver import Resolver

NOW = datetime(2026, 12, 1, 10, tzinfo=UTC)
LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
SECRETS = (new_secret(),)


def make_claim(url: str, **changes: Any) -> Claim:
    values: dict[str, Any] = {
        "job_id": uuid4(),
        "client_id": 1,
        "type": "test",
        "body": b'{"a": 1}',
        "callback_url": url,
        "queue_generation": 1,
        "attempt": 1,
        "max_attempts": 5,
        "number": 1,
        "due_at": NOW,
        "claimed_at": NOW,
        "first_due_at": NOW,
        "signing_secrets": SECRETS,
        "timeout_seconds": 5.0,
    }
    return Claim(**{**values, **changes})


@dataclass
class Delivery:
    """A running deliverer and all it has handed on."""

    deliverer: Deliverer
    answers: list[tuple[Claim, Answer]] = field(default_factory=list)
    unsent: list[tuple[Claim, float]] = field(default_factory=list)
    standing: list[int] = field(default_factory=list)

    def wait(self, count: int, timeout: float = 10.0) -> list[tuple[Claim, Answer]]:
        eventually(lambda: len(self.answers) >= count, timeout=timeout)
        return self.answers

    def call(self, url: str, **changes: Any) -> Answer:
        """Delivers one claim and returns what it came to."""
        claim = make_claim(url, **changes)
        self.deliverer.submit([claim])
        return eventually(lambda: [answer for sent, answer in self.answers[:] if sent is claim])[0]


@contextmanager
def running_deliverer(
    *,
    may_send: Callable[[], bool] = lambda: True,
    lookup: Callable[..., list[Any]] = socket.getaddrinfo,
    per_host: int = 64,
    **settings: Any,
) -> Iterator[Delivery]:
    clock = Clock()
    clock.sync(NOW)
    resolver = Resolver(lookup=lookup)
    answers: list[tuple[Claim, Answer]] = []
    unsent: list[tuple[Claim, float]] = []
    standing: list[int] = []
    deliverer = Deliverer(
        settings=Settings(**{"allowed_callback_cidrs": LOOPBACK, **settings}),
        clock=clock,
        resolver=resolver,
        may_send=may_send,
        on_answers=answers.extend,
        on_unsent=unsent.extend,
        on_standing=standing.append,
        per_host=per_host,
    )
    deliverer.start()
    try:
        yield Delivery(deliverer, answers, unsent, standing)
    finally:
        deliverer.stop()
        resolver.close()
        assert not deliverer.is_alive()


def split(request: bytes) -> tuple[str, list[tuple[str, str]], bytes]:
    """(request line, headers in their order, body)."""
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    return first, [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)], body


def resolving(*addresses: str) -> Callable[..., list[Any]]:
    """A lookup that answers each name with these addresses."""

    def lookup(_host: str, _port: object, **_options: object) -> list[Any]:
        return [(socket.AF_INET6 if ":" in each else socket.AF_INET, 1, 6, "", (each, 0)) for each in addresses]

    return lookup


class Receiver:
    """Accepts connections and gives each to `speak(connection, receiver)` in a thread of its own."""

    def __init__(self, speak: Callable[[socket.socket, Receiver], None], family: int = socket.AF_INET) -> None:
        self._speak = speak
        self.requests: list[bytes] = []
        self.accepted = 0
        self.is_closed = threading.Event()
        self._listener = socket.socket(family)
        self._listener.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        self._listener.listen(1024)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/hook"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def read_request(self, connection: socket.socket) -> bytes | None:
        """One whole request, kept in `requests` and returned; None when the other side closed before one."""
        data = b""
        while b"\r\n\r\n" not in data:
            chunk = connection.recv(65536)
            if not chunk:
                return None
            data += chunk
        head, _, body = data.partition(b"\r\n\r\n")
        lengths = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        while len(body) < int(lengths[0] if lengths else 0):
            body += connection.recv(65536)
        request = head + b"\r\n\r\n" + body
        self.requests.append(request)
        return request

    def close(self) -> None:
        self.is_closed.set()
        # Closing alone leaves a thread in accept().
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(5.0)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                connection.settimeout(20)
                self._speak(connection, self)
        except OSError:
            pass  # the deliverer hung up, which many tests want


@contextmanager
def receiver(speak: Callable[[socket.socket, Receiver], None]) -> Iterator[Receiver]:
    made = Receiver(speak)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def tls_receiver(certificate: str, folder: Path) -> Iterator[Receiver]:
    (folder / "server.pem").write_text(certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")

    def speak(connection: socket.socket, made: Receiver) -> None:
        with context.wrap_socket(connection, server_side=True) as encrypted:
            keeping_alive(encrypted, made)

    with receiver(speak) as made:
        yield made


def answering(answer: bytes) -> Callable[[socket.socket, Receiver], None]:
    """Answers one request with these bytes and closes."""

    def speak(connection: socket.socket, made: Receiver) -> None:
        if made.read_request(connection) is not None:
            connection.sendall(answer)
            hang_up(connection, made)

    return speak


def hang_up(connection: socket.socket, made: Receiver) -> None:
    """Closes in order: without reading to the end first, the system would reset the connection and lose what was sent."""
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(65536) and not made.is_closed.is_set():
        pass


def keeping_alive(connection: socket.socket, made: Receiver) -> None:
    """Answers every request on the connection."""
    while made.read_request(connection) is not None:
        connection.sendall(OK)


def hanging(connection: socket.socket, made: Receiver) -> None:
    """Reads a request and never answers."""
    made.read_request(connection)
    made.is_closed.wait(20)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
