"""Celery at its best for short calls: prefork, a connection kept open in each process, no results, nothing acknowledged late."""

from __future__ import annotations

import os
import sys

import requests
from celery import Celery

app = Celery("bench", broker=os.environ["BENCH_BROKER"])
app.conf.update(
    task_ignore_result=True, worker_prefetch_multiplier=64, worker_send_task_events=False, task_acks_late=False
)
session = requests.Session()


@app.task
def call(url: str, number: int) -> None:
    session.post(url, json=[1, number], timeout=10).raise_for_status()


if __name__ == "__main__":
    # Under the name that the worker knows it by.
    from bench.peers.celery_app import call

    with app.producer_pool.acquire(block=True) as producer:
        for number in range(int(sys.argv[2])):
            call.apply_async((sys.argv[1], number), producer=producer)
