"""`gunicorn bench.bare:app`: a route that does one INSERT and one XADD and nothing else: what no API on these stores can beat."""

from __future__ import annotations

import os
import uuid

import redis
from flask import Flask, request
from sqlalchemy import create_engine, text

app = Flask(__name__)
engine = create_engine(os.environ["DATABASE_URL"], isolation_level="AUTOCOMMIT", pool_size=20)
stream = redis.Redis.from_url(os.environ["REDIS_URL"])
INSERT = text("INSERT INTO bench_bare (id, payload) VALUES (:id, :payload)")


@app.post("/v1/jobs")
def take() -> tuple[dict[str, str], int]:
    job_id = str(uuid.uuid4())
    with engine.connect() as conn:
        conn.execute(INSERT, {"id": job_id, "payload": request.get_data(as_text=True)})
    stream.xadd("bench_bare", {"j": job_id})
    return {"id": job_id}, 201


@app.get("/healthz")
def healthy() -> str:
    return "ok"
