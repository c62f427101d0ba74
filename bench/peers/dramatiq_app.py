"""dramatiq with two processes of eight threads, each with a connection kept open."""

from __future__ import annotations

import os
import sys
import threading

import dramatiq
import requests
from dramatiq.brokers.redis import RedisBroker

dramatiq.set_broker(RedisBroker(url=os.environ["BENCH_BROKER"]))
local = threading.local()


@dramatiq.actor
def call(url: str, number: int) -> None:
    session = getattr(local, "session", None) or requests.Session()
    local.session = session
    session.post(url, json=[1, number], timeout=10).raise_for_status()


if __name__ == "__main__":
    for number in range(int(sys.argv[2])):
        call.send(sys.argv[1], number)
