"""Ending jobs that were not begun by their expires_at."""

from __future__ import annotations

from sqlalchemy import Connection, text

EXPIRED = "expired"
# The rows are chosen once, in a CTE of their own: a subquery with LIMIT may be run again for each row, and choose others.
EXPIRE = text(f"""
    WITH held AS MATERIALIZED (
      SELECT id FROM jobs WHERE status IN ('pending', 'scheduled') AND expires_at <= (SELECT punctual_now()) AND attempts = 0
      ORDER BY expires_at LIMIT :most FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE jobs j SET status = 'cancelled', finished_at = punctual_now(), updated_at = punctual_now(),
                      last_error = 'The job was not begun by its expires_at.', last_error_class = '{EXPIRED}'
    FROM held WHERE j.id = held.id AND j.status IN ('pending', 'scheduled')
""")


def expire(conn: Connection, most: int) -> int:
    """Cancels up to `most` jobs that were never begun and whose time has passed. May leave `pending` and `scheduled`."""
    return conn.execute(EXPIRE, {"most": most}).rowcount
