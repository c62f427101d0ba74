"""A thousand connections that send a byte a second do not stop the API."""

from __future__ import annotations

import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import requests

from tests.processes import Processes

CONNECTIONS = 1000
REQUEST = (
    b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\nContent-Type: application/json\r\n\r\n"
)


@contextmanager
def slow_connections(port: int) -> Iterator[list[socket.socket]]:
    """All open, each sending its next byte every second."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    opened = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
    stopping = threading.Event()

    def send() -> None:
        place = 0
        while not stopping.wait(1.0):
            for connection in opened:
                try:
                    connection.send(REQUEST[place : place + 1] or b"x")
                except OSError:
                    pass
            place += 1

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield opened
    finally:
        stopping.set()
        sender.join()
        for connection in opened:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_thousand_of_them_stop_nobody(processes: Processes, api_key: str) -> None:
    url = processes.web(WEB_WORKERS="1")
    with slow_connections(int(url.rpartition(":")[2])) as opened:
        assert len(opened) == CONNECTIONS
        body = {"type": "t", "payload": 1, "callback_url": "http://127.0.0.1:9/hook", "delay_seconds": 3600}
        for _ in range(20):
            answer = requests.post(
                f"{url}/v1/jobs", json=body, headers={"Authorization": f"Bearer {api_key}"}, timeout=5
            )
            assert answer.status_code == 201
