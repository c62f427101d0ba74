"""Where a program keeps things: the database engine, the stream, and the way around Redis while it is away."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Engine

from app.config import Settings
from app.database import make_engine
from app.redis_client import LOOP_TIMEOUT_SECONDS, Bypass, make_redis
from app.redis_keys import Keys
from app.stream import Stream


@dataclass(frozen=True)
class Stores:
    """Handed to everything that submits, claims or changes jobs."""

    engine: Engine
    stream: Stream
    bypass: Bypass


def loop_stores(settings: Settings, pool_size: int) -> Stores:
    """The stores of a worker or scheduler, whose loops can wait a few seconds for an answer."""
    database_url, redis_url = settings.require_stores()
    client = make_redis(redis_url, LOOP_TIMEOUT_SECONDS)
    return Stores(make_engine(database_url, pool_size), Stream(client, Keys(settings.redis_prefix)), Bypass())
