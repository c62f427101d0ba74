"""Starts again what died, after a pause that grows, and says so."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from app.child import Child, StartFailed

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 30.0
# A child that ran so long before it died has its pauses begin anew.
SETTLED_SECONDS = 30.0
LONGEST_LOG_BYTES = 20 << 20


def say(text: str) -> None:
    """Prints, and goes on when the terminal is gone: stopping must not fail for that."""
    try:
        print(text, flush=True)
    except OSError:
        pass


@dataclass
class Watched:
    """A child with what its restarts need, in monotonic seconds. `restart_at` None: it runs."""

    child: Child
    started_at: float
    pause_seconds: float = FIRST_PAUSE_SECONDS
    restart_at: float | None = None


class Restarts:
    """The children that are to be kept running."""

    def __init__(self) -> None:
        self._watched: list[Watched] = []

    @property
    def children(self) -> list[Child]:
        return [one.child for one in self._watched]

    def watch(self, child: Child) -> None:
        self._watched.append(Watched(child, time.monotonic()))

    def tick(self) -> None:
        now = time.monotonic()
        for one in self._watched:
            if one.restart_at is not None:
                if now >= one.restart_at:
                    self._restart(one, now)
            elif not one.child.is_running:
                self._plan_restart(one, now)

    def _plan_restart(self, one: Watched, now: float) -> None:
        one.child.kill()
        if now - one.started_at > SETTLED_SECONDS:
            one.pause_seconds = FIRST_PAUSE_SECONDS
        say(
            f"{one.child.name} {how_it_ended(one.child.exit_code)}; it is started again in {one.pause_seconds:g} s. {end_of(one.child)}"
        )
        one.restart_at = now + one.pause_seconds
        one.pause_seconds = min(one.pause_seconds * 2, LONGEST_PAUSE_SECONDS)

    def _restart(self, one: Watched, now: float) -> None:
        try:
            one.child.start()
        except (StartFailed, OSError) as error:
            say(f"{one.child.name} could not be started again: {error}")
            one.restart_at = now + LONGEST_PAUSE_SECONDS
            return
        one.started_at, one.restart_at = now, None
        say(f"{one.child.name} was started again (process {one.child.pid}).")


def how_it_ended(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return f"was killed by signal {-exit_code}"
    return f"ended with exit code {exit_code}"


def end_of(child: Child) -> str:
    """Where its log is, with the last lines when it ended by itself."""
    if child.exit_code is None or child.exit_code < 0:
        return f"Its log: {child.log}"
    return f"The end of {child.log}:\n{child.log_end()}"


def shorten(log: Path) -> None:
    """Keeps one older copy of a log that grew too long. Its writers append, so they go on at the new beginning."""
    if log.stat().st_size > LONGEST_LOG_BYTES:
        log.with_suffix(".log.old").write_bytes(log.read_bytes())
        with log.open("r+b") as file:
            file.truncate(0)
