"""A small HTTP proxy for tests: tunnels by CONNECT, requests by their whole address, credentials, and names of its own."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit

from tests.delivery import Receiver, receiver


class Proxy:
    """`heads` are what it was asked, each to its blank line; `names` says where names lead that only the proxy knows."""

    port: int

    def __init__(self, credentials: str | None = None, names: Mapping[str, str] | None = None) -> None:
        self._expected = credentials and f"Basic {base64.b64encode(credentials.encode()).decode()}"
        self._names = dict(names or {})
        self.heads: list[str] = []

    def speak(self, connection: socket.socket, _made: Receiver) -> None:
        head, rest = _read_head(connection)
        self.heads.append(head)
        method, where = head.split(" ")[:2]
        fields = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head.split("\r\n"))
        }
        if self._expected is not None and fields.get("proxy-authorization") != self._expected:
            _refuse(connection, "407 Proxy Authentication Required", 'Proxy-Authenticate: Basic realm="out"\r\n')
            return
        parts = urlsplit(f"//{where}" if method == "CONNECT" else where)
        host = parts.hostname or ""
        try:
            upstream = socket.create_connection((self._names.get(host, host), parts.port or 80), timeout=10)
        except OSError:
            _refuse(connection, "502 Bad Gateway")
            return
        with upstream:
            if method == "CONNECT":
                connection.sendall(b"HTTP/1.1 200 Connection established\r\nX-Of-The-Proxy: 1\r\n\r\n")
            else:
                path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
                lines = [line for line in head.split("\r\n")[1:] if not line.lower().startswith("proxy-")]
                first = f"{method} {path} HTTP/1.1"
                upstream.sendall("\r\n".join([first, *lines, "Connection: close", "", ""]).encode("latin-1"))
            upstream.sendall(rest)
            _join(connection, upstream)


def _read_head(connection: socket.socket) -> tuple[str, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(65536)
        if not chunk:
            raise OSError("closed before a request")
        data += chunk
    head, _, rest = data.partition(b"\r\n\r\n")
    return head.decode("latin-1"), rest


def _refuse(connection: socket.socket, status: str, headers: str = "") -> None:
    connection.sendall(f"HTTP/1.1 {status}\r\n{headers}Content-Length: 0\r\nConnection: close\r\n\r\n".encode())


def _join(one: socket.socket, other: socket.socket) -> None:
    """Passes on what each says until the other side of the tunnel has closed."""
    back = threading.Thread(target=_pass_on, args=(other, one), daemon=True)
    back.start()
    _pass_on(one, other)
    back.join(10)


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    try:
        while chunk := source.recv(65536):
            sink.sendall(chunk)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # one side hung up


@contextmanager
def proxy(credentials: str | None = None, names: Mapping[str, str] | None = None) -> Iterator[Proxy]:
    made = Proxy(credentials, names)
    with receiver(made.speak) as listening:
        made.port = listening.port
        yield made
