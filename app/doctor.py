"""What `flask doctor` looks at: settings, stores, versions, clocks, migrations, who works, and what Redis lacks of PostgreSQL's work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import redis
from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from app.config import Settings
from app.database import autocommit
from app.health import newest_migration
from app.jobs.rescue import NIL, Place, due_by
from app.stores import Stores
from app.stream import HORIZON, Due
from app.system_health import look_with

LEAST_POSTGRESQL = 14
LEAST_REDIS = (6, 2)
# Nothing is decided by a host's clock (C1); apart like this, logs and receivers' checks of timestamps mislead.
SKEW_SECONDS = 2.0
# What has been due for so long and is nowhere in Redis is not just on its way.
DRIFT_SECONDS = 15
MOST = 1000
FIRST = Place(datetime(1, 1, 2, tzinfo=UTC), NIL)

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report: what was found, and what to do about it."""

    level: Level
    what: str
    words: str


def examine(settings: Settings, stores: Stores) -> Iterator[Finding]:
    """Every check, each by itself: one that cannot be made is a finding too."""
    yield from _settings(settings)
    postgresql_is_there = redis_is_there = False
    try:
        with autocommit(stores.engine) as conn:
            yield from _postgresql(conn)
            postgresql_is_there = True
    except SQLAlchemyError as error:
        yield Finding("fail", "PostgreSQL", f"cannot be used: {_line(error)}")
    try:
        yield from _redis(stores)
        redis_is_there = True
    except redis.RedisError as error:
        yield Finding("fail", "Redis", f"cannot be used: {_line(error)}")
    if postgresql_is_there and redis_is_there:
        yield from _both(stores)


def refeed(stores: Stores) -> int:
    """Adds every due row, and every one within the horizon, to Redis again; returns how many. Adding twice is harmless."""
    with autocommit(stores.engine) as conn:
        now: datetime = conn.execute(text("SELECT punctual_now()")).scalar_one()
    stores.stream.create_group()
    return sum(stores.stream.add(jobs, now) for jobs in _waiting(stores, now + HORIZON))


def _settings(settings: Settings) -> Iterator[Finding]:
    yield Finding("ok", "settings", f"environment {settings.environment}")
    if settings.is_production and settings.allowed_callback_cidrs:
        networks = ", ".join(map(str, settings.allowed_callback_cidrs))
        yield Finding("warn", "ALLOWED_CALLBACK_CIDRS", f"opens {networks} to callbacks")


def _postgresql(conn: Connection) -> Iterator[Finding]:
    version = int(_setting(conn, "server_version_num")) // 10_000
    yield Finding(
        "ok" if version >= LEAST_POSTGRESQL else "fail",
        "PostgreSQL",
        f"is version {version}; {LEAST_POSTGRESQL} is the least",
    )
    commit = _setting(conn, "synchronous_commit")
    is_safe = commit not in ("off", "local")
    yield Finding(
        "ok" if is_safe else "fail",
        "synchronous_commit",
        f"is {commit}" + ("" if is_safe else ": an accepted job can be lost; set it on"),
    )
    if _setting(conn, "fsync") != "on":
        yield Finding("fail", "fsync", "is off: a crash of the machine can lose everything; set it on")
    if _setting(conn, "transaction_read_only") == "on":
        yield Finding("fail", "PostgreSQL", "takes no writes: it is a standby, or set to read only")
    found = sorted(conn.execute(text("SELECT version_num FROM alembic_version")).scalars())
    is_newest = found == [newest_migration()]
    yield Finding(
        "ok" if is_newest else "fail",
        "migrations",
        f"at {', '.join(found) or 'none'}"
        + ("" if is_newest else f", this release is at {newest_migration()}: run `flask db upgrade`"),
    )
    health = look_with(conn)
    yield Finding(
        "ok" if health.is_led else "fail",
        "leader",
        "a scheduler leads" if health.is_led else "no scheduler leads: start one, python -m scheduler",
    )
    yield Finding(
        "ok" if health.workers else "fail",
        "workers",
        f"{health.workers} alive" + ("" if health.workers else ": start one, python -m worker"),
    )
    yield from _skew("this host's clock", datetime.now(UTC), health.now)


def _redis(stores: Stores) -> Iterator[Finding]:
    info: Any = stores.stream.client.info()
    version = tuple(int(part) for part in info["redis_version"].split(".")[:2])
    shown = ".".join(map(str, version))
    yield Finding("ok" if version >= LEAST_REDIS else "fail", "Redis", f"is version {shown}; 6.2 is the least")
    policy = info.get("maxmemory_policy", "unknown")
    is_safe = policy == "noeviction"
    yield Finding(
        "ok" if is_safe else "fail",
        "maxmemory-policy",
        f"is {policy}" + ("" if is_safe else ": entries can vanish; set it to noeviction"),
    )
    if not info.get("aof_enabled"):
        yield Finding(
            "warn",
            "appendonly",
            "is off: after a restart of Redis, work waits until it is filled again from PostgreSQL",
        )
    epoch = stores.stream.epoch()
    is_ready = epoch.startswith("ready:")
    yield Finding(
        "ok" if is_ready else "fail",
        "epoch",
        "Redis is filled" if is_ready else "Redis lost its data and is not filled yet",
    )


def _both(stores: Stores) -> Iterator[Finding]:
    """Clocks apart, and what should be on its way and is not."""
    with autocommit(stores.engine) as conn:
        now: datetime = conn.execute(text("SELECT punctual_now()")).scalar_one()
    told: Any = stores.stream.client.time()
    yield from _skew("Redis' clock", datetime.fromtimestamp(told[0] + told[1] / 1e6, UTC), now)
    since = now - timedelta(seconds=DRIFT_SECONDS)
    in_stream = stores.stream.members()
    waiting = lacking = 0
    for jobs in _waiting(stores, since):
        waiting += len(jobs)
        lacking += sum(1 for job in stores.stream.on_no_way(jobs, since) if job.ticket.member not in in_stream)
    words = f"{waiting:,} jobs have been due for {DRIFT_SECONDS} s; {lacking:,} of them are nowhere in Redis"
    advice = ": the leader finds them within a minute, `flask doctor --repair` at once" if lacking else ""
    yield Finding("fail" if lacking else "ok", "drift", words + advice)


def _skew(whose: str, told: datetime, now: datetime) -> Iterator[Finding]:
    seconds = (told - now).total_seconds()
    is_near = abs(seconds) <= SKEW_SECONDS
    words = f"is {abs(seconds):.1f} s {'ahead of' if seconds > 0 else 'behind'} PostgreSQL's"
    yield Finding(
        "ok" if is_near else "warn", whose, words + ("" if is_near else ": nothing is decided by it, but set it right")
    )


def _waiting(stores: Stores, by: datetime) -> Iterator[list[Due]]:
    place: Place | None = FIRST
    while place is not None:
        with autocommit(stores.engine) as conn:
            jobs, place = due_by(conn, by, place, MOST)
        yield jobs


def _setting(conn: Connection, name: str) -> str:
    return str(conn.execute(text("SELECT current_setting(:name)"), {"name": name}).scalar_one())


def _line(error: Exception) -> str:
    return (str(getattr(error, "orig", None) or error).strip().splitlines() or [repr(error)])[0]
