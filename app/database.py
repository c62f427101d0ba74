"""Connections to PostgreSQL: one statement at a time, or a short transaction that no stopped process can hold open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import DataError, DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolEmpty

# C8: what a process that is stopped in mid-transaction may hold at most.
BOUNDS = text(
    "SELECT set_config('idle_in_transaction_session_timeout', '5s', true), "
    "set_config('lock_timeout', '5s', true), set_config('statement_timeout', '30s', true)"
)
BACKEND = text("SELECT pg_backend_pid()")
CONNECT_ARGS: dict[str, Any] = {
    # PgBouncer in transaction mode hands statements to other sessions: nothing may be prepared in one (C8); see `prepared`.
    "prepare_threshold": None,
    "connect_timeout": 3,
    # Instants come back in the session's zone, and some of them no other zone than UTC can hold (9999-12-31T23:59:59Z).
    "options": "-c timezone=UTC",
    # A host that vanished is noticed within about 10 s, not after the kernel's two hours.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}


def engine_options(pool_size: int) -> dict[str, Any]:
    """Engine options shared by web, worker and scheduler."""
    return {
        "pool_size": pool_size,
        "max_overflow": 0,
        "pool_timeout": 2,
        "pool_pre_ping": False,
        "pool_recycle": 1800,
        # An error's text would hold the statement's parameters: payloads, secrets, hashes.
        "hide_parameters": True,
        "connect_args": CONNECT_ARGS,
    }


def make_engine(url: str, pool_size: int) -> Engine:
    """An engine for a process without Flask's request handling (worker, scheduler)."""
    return create_engine(url, **engine_options(pool_size))


@contextmanager
def autocommit(engine: Engine) -> Iterator[Connection]:
    """A connection on which each statement is a transaction of its own: one round trip, nothing held."""
    with engine.connect() as conn:
        yield conn.execution_options(isolation_level="AUTOCOMMIT")


@contextmanager
def prepared(engine: Engine) -> Iterator[Connection]:
    """The same, for the few statements that run all the time: PostgreSQL keeps them planned, where we talk to it directly.

    Planning costs as much as running them does. Their plans must be good for any parameters, since one serves all.
    """
    with engine.connect() as conn:
        conn = conn.execution_options(isolation_level="AUTOCOMMIT")
        driver = conn.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        driver.prepare_threshold = 0 if _is_direct(conn, driver) else None
        try:
            yield conn
        finally:
            driver.prepare_threshold = None


def _is_direct(conn: Connection, driver: psycopg.Connection) -> bool:
    """Whether the session is ours alone. A pooler tells its clients a process number of its own making; asked once a connection."""
    info = conn.connection.info
    if "is_direct" not in info:
        info["is_direct"] = driver.info.backend_pid == conn.execute(BACKEND).scalar_one()
    return bool(info["is_direct"])


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """A transaction of several statements, bounded by C8; commits at the end, rolls back on an exception."""
    with engine.begin() as conn:
        conn.execute(BOUNDS)
        yield conn


def sqlstate(error: BaseException) -> str | None:
    """PostgreSQL's five-character code behind an exception, where there is one."""
    return getattr(getattr(error, "orig", None), "sqlstate", None)


def is_connection_lost(error: BaseException) -> bool:
    """Whether the statement may or may not have been carried out: it has to be repeated to know (C7)."""
    state = sqlstate(error)
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    # 08: connection exceptions; 57P01-3: shutdown, crash, starting; 53300: too many connections
    return isinstance(error, OperationalError) and (
        state is None or state[:2] == "08" or state in {"57P01", "57P02", "57P03", "57P05", "53300", "25P03"}
    )


def is_passing(error: BaseException) -> bool:
    """Whether trying the same statement again can succeed: deadlock, lock or statement time-out, lost connection, pool empty."""
    return (
        isinstance(error, PoolEmpty)
        or is_connection_lost(error)
        or sqlstate(error)
        in {
            "40P01",
            "40001",
            "55P03",
            "57014",
            "25006",
            "53100",
            "53200",
        }
    )


def is_about_a_row(error: BaseException) -> bool:
    """Whether a statement failed for what one of its rows holds, so that the others can go without it (C6).

    Not so for a table or column that is missing, or a right: that would be true of every row, and a later try may succeed.
    """
    state = sqlstate(error)
    if state is None:
        # The driver's own refusals, before anything is sent: a NUL, a lone surrogate, a number beyond every type.
        return isinstance(error, DataError | UnicodeError)
    # 22: data exceptions; 23: constraints; 54: too large for an index or a type; P0: raised by a trigger
    return state[:2] in {"22", "23", "54", "P0"} or state in {"XX001", "XX002"}
