"""Moves PostgreSQL's time for a test, by replacing the schema's one function that tells it (C1). Nothing in the product can."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection, text

FUNCTION = """
    CREATE OR REPLACE FUNCTION punctual_now() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE
    AS 'SELECT clock_timestamp() {shift}'
"""


@dataclass
class Start:
    """From where a test's shifts count: 0, or what takes PostgreSQL's time to early in a minute."""

    ahead_seconds: float = 0.0


_start = Start()


def shift(conn: Connection, seconds: float) -> None:
    """From now on PostgreSQL's time is ahead by `seconds` of where the test began; 0 sets it right again."""
    ahead = _start.ahead_seconds + seconds
    conn.execute(text(FUNCTION.format(shift=f"+ interval ''{ahead} seconds''" if ahead else "")))


@contextmanager
def early_in_a_minute(conn: Connection) -> Iterator[None]:
    """PostgreSQL's time is 5 s past a minute when the block begins, so that a test that counts minutes meets no other one."""
    now = conn.execute(text("SELECT clock_timestamp()")).scalar_one()
    _start.ahead_seconds = (65 - now.second - now.microsecond / 1_000_000) % 60
    try:
        shift(conn, 0)
        yield
    finally:
        _start.ahead_seconds = 0.0
        shift(conn, 0)


@contextmanager
def shifted(conn: Connection, seconds: float) -> Iterator[None]:
    """Time ahead by `seconds` inside the block."""
    shift(conn, seconds)
    try:
        yield
    finally:
        shift(conn, 0)
