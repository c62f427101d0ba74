"""The ready stream, the scheduled set and the queues in front of the stream: adding, promoting, reading, finishing.

Redis here is a fast copy of the near future. Whatever is lost from it the rescuer finds again in PostgreSQL, so that adding
twice, delivering twice or losing an entry does no harm: the claim is conditional.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import redis

from app.redis_keys import BAD_LIFETIME_SECONDS, GROUP, Keys
from app.stream.scripts import lua
from app.stream.tickets import EPOCH, MILLISECOND, Due, Held, Promoted, Read, read_entry, to_score, token_of
from app.stream.watch import Watch

HORIZON = timedelta(seconds=30)
PUT_BACK_AHEAD = timedelta(milliseconds=50)
PIPELINE_LENGTH = 1000
# Beyond so many entries in the stream, jobs wait in their queues, which take turns: whoever comes next waits for no more.
MOST_READY = 128
# A level of priority goes before what was due up to this much earlier.
HEAD_START = timedelta(minutes=5)
# A queue that PostgreSQL says is full is looked at again after this long, if no end of a call wakes it before.
FULL_PAUSE = timedelta(milliseconds=100)


class Stream(Watch):
    """The two structures under one prefix, on one connection pool."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        super().__init__(client, keys)
        self._scripts = {
            name: client.register_script(lua("queues") + lua(name))
            for name in ("add", "promote", "finish", "release", "set_limits")
        }

    def _call(self, name: str, now: datetime, *args: Any) -> Any:
        """Runs one of the scripts that know of queues, in PostgreSQL's time."""
        k = self.keys
        fixed = (k.base, MOST_READY, HEAD_START // MILLISECOND, (now - EPOCH) // MILLISECOND)
        return self._scripts[name](keys=[k.ready, k.scheduled, k.epoch], args=[*fixed, *args])

    # Adding

    def add(self, jobs: Iterable[Due], now: datetime) -> int:
        """Adds each job where it belongs at `now`. Returns how many were added.

        What is due goes into the stream, or waits for its queue's turn; what is due within the horizon into the set; the rest
        nowhere.
        """
        soon = [job for job in jobs if job.run_at <= now + HORIZON]
        for start in range(0, len(soon), PIPELINE_LENGTH):
            part = soon[start : start + PIPELINE_LENGTH]
            self._call(
                "add", now, *(x for job in part for x in (job.member, to_score(job.run_at), int(job.run_at <= now)))
            )
        return len(soon)

    # Promoting

    def promote(self, now: datetime, most: int = 500) -> Promoted:
        """Moves what is due at `now` on from the set, `most` members at a time (C12), and lets in what waits in queues."""
        moved, bad, epoch, first = self._call("promote", now, most, BAD_LIFETIME_SECONDS)
        return Promoted(moved, bad, epoch.decode(), float(first) if first else None)

    # Reading, by workers

    def read(self, consumer: str, count: int, block_ms: int) -> list[Read]:
        """Up to `count` new entries for `consumer`, waiting `block_ms` for the first."""
        return self._read(consumer, ">", count, block_ms)

    def read_pending(self, consumer: str, count: int) -> list[Read]:
        """What was delivered to `consumer` and never acknowledged: after an error of reading it may hold entries it never saw."""
        return self._read(consumer, "0", count, None)

    def _read(self, consumer: str, start: str, count: int, block_ms: int | None) -> list[Read]:
        answer: Any = self.client.xreadgroup(GROUP, consumer, {self.keys.ready: start}, count=count, block=block_ms)
        entries = answer[0][1] if answer else []
        return [read_entry(entry_id, fields) for entry_id, fields in entries]

    def finish(self, read: Sequence[Read], put_back: Iterable[Due], now: datetime, held: Held | None = None) -> None:
        """Ends a batch that was claimed, by one script: what was only locked or not due goes back into the set, what its queue's
        limits hold goes back into its queue, and the batch is acknowledged and deleted (C4)."""
        held = held or Held()
        what = {
            "put_back": [[job.member, to_score(max(job.run_at, now + PUT_BACK_AHEAD))] for job in put_back],
            "refused": [[job.member, to_score(job.run_at)] for job in held.refused],
            "give_up": [
                [token_of(entry.lane), entry.ticket.job_id]
                for entry in read
                if entry.has_slot and entry.ticket and entry.ticket.job_id not in held.keep_slots
            ],
            "rates": [[rate.token, rate.free, to_score(rate.more_at)] for rate in held.rates],
            "asleep": [[token, to_score(now + FULL_PAUSE)] for token in held.full],
            "entries": [entry.entry_id.decode() for entry in read],
        }
        self._call("finish", now, GROUP, json.dumps(what))

    # Queues

    def release(self, slots: Sequence[tuple[str, str]], now: datetime) -> None:
        """Gives up slots (token, job id) of limited queues, and lets the next in."""
        if slots:
            self._call("release", now, *(x for slot in slots for x in slot))

    def set_limits(self, limits: Mapping[str, str], now: datetime, *, are_all: bool = False) -> None:
        """Takes over the limits of queues, by token; empty for a queue without. `are_all`: no other queue has any."""
        self._call("set_limits", now, int(are_all), *(x for pair in limits.items() for x in pair))

    def hold_slots(self, slots: Sequence[tuple[str, str]], now: datetime) -> None:
        """Notes slots (token, job id) that running jobs hold, after Redis forgot them."""
        pipe = self.client.pipeline(transaction=False)
        for token, job_id in slots:
            pipe.zadd(self.keys.slots(token), {job_id: to_score(now)})
        pipe.execute()

    def slots_before(self, tokens: Sequence[str], instant: datetime) -> list[tuple[str, str]]:
        """(token, job id) of slots that have been held since before `instant`."""
        pipe = self.client.pipeline(transaction=False)
        for token in tokens:
            pipe.zrangebyscore(self.keys.slots(token), "-inf", f"({to_score(instant)}")
        return [
            (token, job_id.decode()) for token, found in zip(tokens, pipe.execute(), strict=True) for job_id in found
        ]

    def waiting_counts(self, tokens: Sequence[str]) -> dict[str, int]:
        """How many jobs wait in each queue for its turn."""
        pipe = self.client.pipeline(transaction=False)
        for token in tokens:
            pipe.zcard(self.keys.waiting(token))
        return dict(zip(tokens, pipe.execute(), strict=True))

    def forget_waiting(self, jobs: Iterable[Due]) -> None:
        """Drops cancelled jobs from where they wait for their queue's turn; an entry that is left does no harm."""
        pipe = self.client.pipeline(transaction=False)
        for job in jobs:
            pipe.zrem(self.keys.waiting(token_of(job.lane)), job.member)
        pipe.execute()

    def note_bad(self, read: Sequence[Read]) -> None:
        """Keeps the ids of entries that could not be parsed where a person can see them."""
        pipe = self.client.pipeline(transaction=False)
        pipe.lpush(self.keys.bad, *(b"entry " + entry.entry_id for entry in read))
        pipe.ltrim(self.keys.bad, 0, 999)
        pipe.expire(self.keys.bad, BAD_LIFETIME_SECONDS)
        pipe.execute()
