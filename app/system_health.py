"""Whether the machinery itself works: somebody leads, workers live, nothing is late. One bounded statement, on every page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from sqlalchemy import Connection, Engine, text

from app.database import autocommit
from app.processes import SILENCE_SECONDS

# Healthy is under 100 ms; a retry storm or a slow receiver's queue may take a moment.
LATE_SECONDS = 10
DIED_LATELY_MINUTES = 15

# The first in line of what nothing holds back: neither its queue's limits nor an open circuit make work late.
OLDEST_UNHELD = """
    SELECT min(first.run_at) FROM queues q CROSS JOIN LATERAL (
      SELECT j.run_at FROM jobs j
      WHERE j.queue_id = q.id AND j.status IN ('pending', 'scheduled')
        AND NOT EXISTS (SELECT FROM circuits o WHERE o.client_id = j.client_id AND o.host = j.callback_host AND o.opened_at IS NOT NULL)
      ORDER BY j.run_at LIMIT 1) first
    WHERE NOT q.is_limited
"""
LOOK = text(f"""
    WITH clock AS MATERIALIZED (SELECT punctual_now() AS now),
    alive AS MATERIALIZED (SELECT kind FROM processes, clock WHERE lost_at IS NULL AND stopped_at IS NULL
                             AND beat_at > now - make_interval(secs => {SILENCE_SECONDS}))
    SELECT (SELECT now FROM clock) AS now,
           (SELECT holder IS NOT NULL AND expires_at > now FROM leader, clock) AS is_led,
           (SELECT count(*) FROM alive WHERE kind = 'worker') AS workers,
           (SELECT count(*) FROM alive WHERE kind = 'scheduler') AS schedulers,
           ({OLDEST_UNHELD}) AS next_due_at,
           (SELECT coalesce(sum(count), 0) FROM minute_stats WHERE outcome = 'dead'
              AND minute > (SELECT now FROM clock) - make_interval(mins => {DIED_LATELY_MINUTES})) AS died_lately
""")


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, and what to do about it."""

    title: str
    advice: str


@dataclass(frozen=True, slots=True)
class Health:
    """The machinery at PostgreSQL's time `now`. `oldest_due_at`: since when the first job in line is waiting; None: none waits."""

    now: datetime
    is_led: bool
    workers: int
    schedulers: int
    oldest_due_at: datetime | None
    died_lately: int

    @property
    def waited(self) -> timedelta:
        """How long the first due job has waited; zero when none is due."""
        return self.now - self.oldest_due_at if self.oldest_due_at else timedelta(0)

    @property
    def level(self) -> Literal["ok", "warning", "failing"]:
        """`failing`: the machinery stands still or is late. `warning`: it works, and jobs died lately."""
        return "failing" if self.problems else "warning" if self.died_lately else "ok"

    @property
    def problems(self) -> list[Problem]:
        found = []
        if not self.is_led:
            standby = f"{self.schedulers} stand by; one takes over within seconds." if self.schedulers else ""
            found.append(
                Problem(
                    "No scheduler leads",
                    standby or "Cron entries do not fire and later jobs do not start. Start one: python -m scheduler",
                )
            )
        if not self.workers:
            found.append(Problem("No worker is alive", "Nothing is delivered. Start one: python -m worker"))
        if self.waited > timedelta(seconds=LATE_SECONDS):
            found.append(
                Problem(
                    "Work is late", "Jobs are due and wait. Add workers, or look for slow callbacks under Executions."
                )
            )
        return found


def look(engine: Engine) -> Health:
    """The state of the machinery now."""
    with autocommit(engine) as conn:
        return look_with(conn)


def look_with(conn: Connection) -> Health:
    row = conn.execute(LOOK).one()
    is_due = row.next_due_at is not None and row.next_due_at <= row.now
    return Health(
        now=row.now,
        is_led=bool(row.is_led),
        workers=row.workers,
        schedulers=row.schedulers,
        oldest_due_at=row.next_due_at if is_due else None,
        died_lately=int(row.died_lately),
    )
