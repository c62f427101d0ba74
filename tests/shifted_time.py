"""Moves PostgreSQL's time for a test, by replacing the schema's one function that tells it (C1). Nothing in the product can."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, text

FUNCTION = """
    CREATE OR REPLACE FUNCTION punctual_now() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE
    AS 'SELECT clock_timestamp() {shift}'
"""


def shift(conn: Connection, seconds: float) -> None:
    """From now on PostgreSQL's time is ahead by `seconds`; 0 sets it right again."""
    conn.execute(text(FUNCTION.format(shift=f"+ interval ''{seconds} seconds''" if seconds else "")))


@contextmanager
def shifted(conn: Connection, seconds: float) -> Iterator[None]:
    """Time ahead by `seconds` inside the block."""
    shift(conn, seconds)
    try:
        yield
    finally:
        shift(conn, 0)
