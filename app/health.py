"""/livez, /readyz and /healthz: whether a process lives and reaches its stores, told within about a second whatever they do."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import cache
from pathlib import Path
from threading import Lock, Thread
from typing import cast

import structlog
from flask import Blueprint, Flask, Response, current_app, jsonify
from sqlalchemy import NullPool, create_engine, text

from app.config import Settings
from app.database import CONNECT_ARGS, autocommit
from app.redis_client import WEB_TIMEOUT_SECONDS, make_redis

logger = structlog.get_logger(__name__)
bp = Blueprint("health", __name__)

CHECK_SECONDS = 1.0
MIGRATIONS = "migrations"
ROOT = Path(__file__).resolve().parent.parent


class Check:
    """Asks one store in a thread of its own, so that a store that hangs holds up nobody.

    Who asks while an earlier question is still open waits for its answer: a hanging store gets one question, not a pile.
    """

    def __init__(self, name: str, ask: Callable[[], None]) -> None:
        self.name = name
        self._ask = ask
        self._lock = Lock()
        self._open: Future[None] = Future()
        self._open.set_result(None)

    def begin(self) -> Future[None]:
        """The answer to come: a result when the store is there, else an exception."""
        with self._lock:
            if self._open.done():
                self._open = Future()
                # A daemon: a question that is never answered must not keep the process from ending.
                Thread(target=self._run, args=(self._open,), name=f"health-{self.name}", daemon=True).start()
            return self._open

    def _run(self, answer: Future[None]) -> None:
        try:
            self._ask()
        except Exception as error:  # noqa: BLE001 (handed on to whoever asked)
            answer.set_exception(error)
        else:
            answer.set_result(None)


def register(app: Flask, settings: Settings) -> None:
    """Adds /livez, /readyz and /healthz."""
    app.extensions["health"] = make_checks(settings)
    app.register_blueprint(bp)


def make_checks(settings: Settings) -> list[Check]:
    """PostgreSQL, Redis and the migrations.

    Each question to PostgreSQL has a connection of its own: a busy pool is not a database that is away.
    """
    database_url, redis_url = settings.require_stores()
    engine = create_engine(database_url, poolclass=NullPool, connect_args=CONNECT_ARGS)
    client = make_redis(redis_url, WEB_TIMEOUT_SECONDS)

    def ask_postgresql() -> None:
        with autocommit(engine) as conn:
            conn.execute(text("SELECT 1"))

    def ask_redis() -> None:
        client.ping()

    def ask_migrations() -> None:
        with autocommit(engine) as conn:
            found = sorted(conn.execute(text("SELECT version_num FROM alembic_version")).scalars())
        # Beyond it is as good: the next release's migrations run while this one serves, and must not take it out of service.
        if not found or found[-1] < newest_migration():
            raise RuntimeError(f"the database is at migration {found}, this release at {newest_migration()}")

    return [Check("postgresql", ask_postgresql), Check("redis", ask_redis), Check(MIGRATIONS, ask_migrations)]


@cache
def newest_migration() -> str:
    """The last of the numbered files."""
    return max(path.name[:4] for path in (ROOT / "migrations" / "versions").glob("[0-9]*.py"))


def stores_away(checks: list[Check], seconds: float = CHECK_SECONDS) -> list[str]:
    """The names of the stores that did not answer, or not within `seconds`. All are asked at once."""
    answers = {check.name: check.begin() for check in checks}
    wait(answers.values(), seconds)
    away = []
    for name, answer in answers.items():
        error: BaseException | str | None = answer.exception() if answer.done() else f"no answer within {seconds:g} s"
        if error is not None:
            logger.warning("store_away", store=name, error=(str(error).strip().splitlines() or [""])[0])
            away.append(name)
    return away


@bp.get("/healthz")
def healthz() -> tuple[Response, int]:
    """200 `{"status": "ok"}`, or 503 that names which store is away. Needs no key, and says nothing else."""
    return _told([check for check in _checks() if check.name != MIGRATIONS])


@bp.get("/readyz")
def readyz() -> tuple[Response, int]:
    """As /healthz, and whether the database has this release's migrations. 503 as well while this web is about to leave."""
    if cast(Settings, current_app.extensions["settings"]).leaving_file.exists():
        return jsonify(status="leaving"), 503
    return _told(_checks())


@bp.get("/livez")
def livez() -> tuple[Response, int]:
    """200 whenever this process answers: a store that is away is no reason to start it again."""
    return jsonify(status="ok"), 200


def _checks() -> list[Check]:
    return cast("list[Check]", current_app.extensions["health"])


def _told(checks: list[Check]) -> tuple[Response, int]:
    away = stores_away(checks)
    if away:
        return jsonify(status="unavailable", away=away), 503
    return jsonify(status="ok"), 200
