"""What stands for jobs in Redis: tickets, lanes and scores. Plain data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Instants are counted in whole milliseconds by integers: a float loses a microsecond far from 1970.
MILLISECOND = timedelta(milliseconds=1)
_LANE = re.compile(r"[0-9]{1,19}:[0-9]{1,19}:[0-9]")
ID_BEFORE_ALL = "0-0"
MAX_INTEGER = 1 << 31

StreamId = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Ticket:
    """What stands for a job in Redis: its id, and the generation and attempts it was decided on."""

    job_id: str
    queue_generation: int
    attempts: int

    @property
    def member(self) -> str:
        return f"{self.job_id}:{self.queue_generation}:{self.attempts}"


@dataclass(frozen=True, slots=True)
class Due:
    """A ticket, when it is due, and its lane `client:queue:priority`. Without a lane it waits for nobody's turn."""

    ticket: Ticket
    run_at: datetime
    lane: str = ""

    @property
    def member(self) -> str:
        return f"{self.ticket.member}:{self.lane}" if self.lane else self.ticket.member


@dataclass(frozen=True, slots=True)
class Read:
    """One stream entry as delivered. `ticket` is None when it could not be parsed. `has_slot`: it came by its queue's turn."""

    entry_id: bytes
    ticket: Ticket | None
    lane: str = ""
    has_slot: bool = False


@dataclass(frozen=True, slots=True)
class Promoted:
    """What one promotion did. `next_at_ms` is the score of the first member left."""

    moved: int
    bad: int
    epoch: str
    next_at_ms: float | None


@dataclass(frozen=True, slots=True)
class Rate:
    """How many jobs of a queue may start now, and when more may."""

    token: str
    free: int
    more_at: datetime


@dataclass(frozen=True, slots=True)
class Held:
    """What the limits of queues made of a batch. `keep_slots` are ids of jobs that were claimed and keep their slots."""

    refused: tuple[Due, ...] = ()
    keep_slots: frozenset[str] = frozenset()
    rates: tuple[Rate, ...] = ()
    full: tuple[str, ...] = ()

    @classmethod
    def joined(cls, parts: Sequence[Held]) -> Held:
        """Those of a batch that was claimed in parts, one after the other: what the last one found of a rate holds."""
        rates = {rate.token: rate for part in parts for rate in part.rates}
        return cls(
            tuple(job for part in parts for job in part.refused),
            frozenset().union(*(part.keep_slots for part in parts)),
            tuple(rates.values()),
            tuple(dict.fromkeys(token for part in parts for token in part.full)),
        )


def to_score(instant: datetime) -> int:
    """Milliseconds since 1970, rounded up: no job is promoted before its time (C2)."""
    return -((EPOCH - instant) // MILLISECOND)


def parse_id(text: bytes | str) -> StreamId:
    ms, _, sequence = (text.decode() if isinstance(text, bytes) else text).partition("-")
    return int(ms), int(sequence or 0)


def token_of(lane: str) -> str:
    """`client:queue`, which names a queue in Redis."""
    return lane.rpartition(":")[0]


def read_entry(entry_id: bytes, fields: dict[bytes, bytes] | None) -> Read:
    lane = (fields or {}).get(b"l", b"").decode("ascii", "replace")
    return Read(entry_id, _ticket(fields), lane if _LANE.fullmatch(lane) else "", b"s" in (fields or {}))


def _ticket(fields: dict[bytes, bytes] | None) -> Ticket | None:
    """The ticket of one entry, parsed by itself: a bad one must not reach a statement with others (C6)."""
    if not fields:
        return None
    try:
        job_id = str(UUID(fields[b"j"].decode("ascii")))
        generation, attempts = int(fields[b"g"]), int(fields[b"a"])
    except (KeyError, ValueError):
        return None
    if not (0 <= generation < MAX_INTEGER and 0 <= attempts < MAX_INTEGER):
        return None
    return Ticket(job_id, generation, attempts)
