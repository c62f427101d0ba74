"""The ready stream and the scheduled set: the only module that talks to them.

Redis here is a fast copy of the near future. Whatever is lost from it the rescuer finds again in PostgreSQL, so that adding
twice, delivering twice or losing an entry does no harm: the claim is conditional.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any, cast
from uuid import UUID

import redis

from app.redis_keys import BAD_LIFETIME_SECONDS, GROUP, Keys

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Instants are counted in whole milliseconds by integers: a float loses a microsecond far from 1970.
MILLISECOND = timedelta(milliseconds=1)
HORIZON = timedelta(seconds=30)
PUT_BACK_AHEAD = timedelta(milliseconds=50)
ID_BEFORE_ALL = "0-0"
MAX_INTEGER = 1 << 31
PIPELINE_LENGTH = 1000

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
    """A ticket and when it is due."""

    ticket: Ticket
    run_at: datetime


@dataclass(frozen=True, slots=True)
class Read:
    """One stream entry as delivered. `ticket` is None when it could not be parsed."""

    entry_id: bytes
    ticket: Ticket | None


@dataclass(frozen=True, slots=True)
class Promoted:
    """What one promotion did. `next_at_ms` is the score of the first member left."""

    moved: int
    bad: int
    epoch: str
    next_at_ms: float | None


def to_score(instant: datetime) -> int:
    """Milliseconds since 1970, rounded up: no job is promoted before its time (C2)."""
    return -((EPOCH - instant) // MILLISECOND)


def parse_id(text: bytes | str) -> StreamId:
    ms, _, sequence = (text.decode() if isinstance(text, bytes) else text).partition("-")
    return int(ms), int(sequence or 0)


class Stream:
    """The two structures under one prefix, on one connection pool."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self.client = client
        self.keys = keys
        self._promote = self._script("promote")
        self._finish_rebuild = self._script("finish_rebuild")

    def _script(self, name: str) -> Any:
        return self.client.register_script((files("app") / "lua" / f"{name}.lua").read_text(encoding="utf-8"))

    # Adding

    def add(self, jobs: Iterable[Due], now: datetime) -> int:
        """Adds each job where it belongs at `now`: stream if due, set if due within the horizon, else nowhere. Returns how many."""
        added = 0
        pipe = self.client.pipeline(transaction=False)
        for job in jobs:
            if job.run_at <= now:
                self._xadd(pipe, job.ticket)
            elif job.run_at <= now + HORIZON:
                pipe.zadd(self.keys.scheduled, {job.ticket.member: to_score(job.run_at)})
            else:
                continue
            added += 1
            if added % PIPELINE_LENGTH == 0:
                pipe.execute()
        if added % PIPELINE_LENGTH:
            pipe.execute()
        return added

    def _xadd(self, pipe: Any, ticket: Ticket) -> None:
        pipe.xadd(self.keys.ready, {"j": ticket.job_id, "g": ticket.queue_generation, "a": ticket.attempts})

    # Promoting

    def promote(self, now: datetime, most: int = 500) -> Promoted:
        """Moves what is due at `now` from the set into the stream, `most` members at a time (C12)."""
        k = self.keys
        moved, bad, epoch, first = self._promote(
            keys=[k.scheduled, k.ready, k.epoch, k.bad],
            args=[(now - EPOCH) // MILLISECOND, most, BAD_LIFETIME_SECONDS],
        )
        return Promoted(moved, bad, epoch.decode(), float(first) if first else None)

    # Reading, by workers

    def create_group(self) -> None:
        """Makes stream and group where they are missing, from id 0: what was added before is read too."""
        try:
            self.client.xgroup_create(self.keys.ready, GROUP, id="0", mkstream=True)
        except redis.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise

    def read(self, consumer: str, count: int, block_ms: int) -> list[Read]:
        """Up to `count` new entries for `consumer`, waiting `block_ms` for the first."""
        return self._read(consumer, ">", count, block_ms)

    def read_pending(self, consumer: str, count: int) -> list[Read]:
        """What was delivered to `consumer` and never acknowledged: after an error of reading it may hold entries it never saw."""
        return self._read(consumer, "0", count, None)

    def _read(self, consumer: str, start: str, count: int, block_ms: int | None) -> list[Read]:
        answer: Any = self.client.xreadgroup(GROUP, consumer, {self.keys.ready: start}, count=count, block=block_ms)
        entries = answer[0][1] if answer else []
        return [Read(entry_id, _ticket(fields)) for entry_id, fields in entries]

    def finish(self, read: Sequence[Read], put_back: Iterable[Due], now: datetime) -> None:
        """In one MULTI: what was only locked or not due goes back into the set, then the batch is acknowledged and deleted (C4)."""
        pipe = self.client.pipeline(transaction=True)
        for job in put_back:
            at = max(job.run_at, now + PUT_BACK_AHEAD)
            pipe.zadd(self.keys.scheduled, {job.ticket.member: to_score(at)})
        ids = [entry.entry_id for entry in read]
        if ids:
            pipe.xack(self.keys.ready, GROUP, *ids)
            pipe.xdel(self.keys.ready, *ids)
        pipe.execute()

    def note_bad(self, read: Sequence[Read]) -> None:
        """Keeps the ids of entries that could not be parsed where a person can see them."""
        pipe = self.client.pipeline(transaction=False)
        pipe.lpush(self.keys.bad, *(b"entry " + entry.entry_id for entry in read))
        pipe.ltrim(self.keys.bad, 0, 999)
        pipe.expire(self.keys.bad, BAD_LIFETIME_SECONDS)
        pipe.execute()

    # Watching over, by the leader

    def epoch(self) -> str:
        """`ready:<token>`, `rebuilding:<token>`, or empty when Redis lost its data."""
        value = cast("bytes | None", self.client.get(self.keys.epoch))
        return value.decode() if value else ""

    def begin_rebuild(self, token: str) -> None:
        self.client.set(self.keys.epoch, f"rebuilding:{token}")

    def finish_rebuild(self, token: str) -> bool:
        """Whether the epoch is ready now. False: Redis was emptied, or another leader began; start again."""
        return bool(self._finish_rebuild(keys=[self.keys.epoch], args=[f"rebuilding:{token}", f"ready:{token}"]))

    def holds_scheduled_before(self, instant: datetime) -> bool:
        """Whether the set may hold a member due before `instant`: the promoter has not come so far yet.

        Both were rounded up, so that what was due earlier in the same millisecond has the same score.
        """
        return bool(self.client.zrangebyscore(self.keys.scheduled, "-inf", to_score(instant), start=0, num=1))

    def not_scheduled(self, jobs: Sequence[Due]) -> list[Due]:
        """Those of `jobs` that the set does not hold. What was put back is in it beyond its time."""
        if not jobs:
            return []
        scores: Any = self.client.zmscore(self.keys.scheduled, [job.ticket.member for job in jobs])
        return [job for job, score in zip(jobs, scores, strict=True) if score is None]

    def last_generated_id(self) -> StreamId:
        """The newest id the stream ever gave out. A missing stream reads as before all."""
        try:
            info: Any = self.client.xinfo_stream(self.keys.ready)
        except redis.ResponseError:
            return parse_id(ID_BEFORE_ALL)
        return parse_id(info["last-generated-id"])

    def last_delivered_id(self) -> StreamId | None:
        """The newest id handed to a worker; None when the group is gone."""
        try:
            groups: Any = self.client.xinfo_groups(self.keys.ready)
        except redis.ResponseError:
            return None
        for group in groups:
            if group["name"] == GROUP.encode():
                return parse_id(group["last-delivered-id"])
        return None

    def has_handed_out(self, mark: StreamId) -> bool:
        """Whether each entry up to `mark` was handed to a worker, or is gone. False while there is no group.

        A group that was made anew begins at 0 and need not come to `mark` again: nothing may be left to read up to there.
        """
        delivered = self.last_delivered_id()
        if delivered is None or delivered >= mark:
            return delivered is not None
        first, last = f"({delivered[0]}-{delivered[1]}", f"{mark[0]}-{mark[1]}"
        return not self.client.xrange(self.keys.ready, min=first, max=last, count=1)

    def drop_stale_pending(self, collector: str, idle_ms: int) -> int:
        """Acknowledges and deletes what has been pending for `idle_ms`, over the whole cursor: the row is the truth (C15)."""
        cursor: Any = ID_BEFORE_ALL
        dropped = 0
        while True:
            try:
                answer: Any = self.client.xautoclaim(
                    self.keys.ready, GROUP, collector, min_idle_time=idle_ms, start_id=cursor, count=500
                )
            except redis.ResponseError as error:
                if "NOGROUP" not in str(error):
                    raise
                self.create_group()
                return dropped
            ids = [entry_id for entry_id, _ in answer[1] if entry_id] + list(answer[2] if len(answer) > 2 else [])
            if len(ids) < len(answer[1]):
                # Redis 6.2 has a nil for an entry that was deleted while it was pending, and leaves it pending.
                left: Any = self.client.xpending_range(self.keys.ready, GROUP, "-", "+", 500, consumername=collector)
                ids = [entry["message_id"] for entry in left]
            if ids:
                pipe = self.client.pipeline(transaction=True)
                pipe.xack(self.keys.ready, GROUP, *ids)
                pipe.xdel(self.keys.ready, *ids)
                pipe.execute()
                dropped += len(ids)
            cursor = answer[0]
            if parse_id(cursor) == (0, 0):
                return dropped

    def trim(self) -> int:
        """Removes what lies below the oldest pending or undelivered entry: acknowledged but, by a crash, not deleted."""
        delivered = self.last_delivered_id()
        if delivered is None:
            return 0
        pending: Any = self.client.xpending(self.keys.ready, GROUP)
        oldest = parse_id(pending["min"]) if pending and pending["min"] else (delivered[0], delivered[1] + 1)
        return int(self.client.xtrim(self.keys.ready, minid=f"{oldest[0]}-{oldest[1]}", approximate=False))

    def remove_consumers(self, alive: set[str]) -> list[str]:
        """Removes consumers with nothing pending whose process is gone. Returns their names."""
        consumers: Any = self.client.xinfo_consumers(self.keys.ready, GROUP)
        gone = [c["name"].decode() for c in consumers if not c["pending"] and c["name"].decode() not in alive]
        for name in gone:
            self.client.xgroup_delconsumer(self.keys.ready, GROUP, name)
        return gone

    def depth(self) -> tuple[int, int]:
        """Entries in the stream and members of the set."""
        pipe = self.client.pipeline(transaction=False)
        pipe.xlen(self.keys.ready)
        pipe.zcard(self.keys.scheduled)
        ready, scheduled = pipe.execute()
        return int(ready), int(scheduled)


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
