"""Looking after the ready stream and the scheduled set, by the leader."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

import redis

from app.redis_keys import GROUP, Keys
from app.stream.scripts import lua
from app.stream.tickets import ID_BEFORE_ALL, Due, StreamId, parse_id, to_score, token_of


class Watch:
    """What the leader does with them."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self.client = client
        self.keys = keys
        self._finish_rebuild = client.register_script(lua("finish_rebuild"))

    def create_group(self) -> None:
        """Makes stream and group where they are missing, from id 0: what was added before is read too."""
        try:
            self.client.xgroup_create(self.keys.ready, GROUP, id="0", mkstream=True)
        except redis.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise

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

    def on_no_way(self, jobs: Sequence[Due], since: datetime) -> list[Due]:
        """Those of `jobs`, due since before `since`, that are neither in the set nor in their queue, nor admitted since then.

        What was put back is in the set beyond its time; what was admitted since may be in the stream.
        """
        if not jobs:
            return []
        pipe = self.client.pipeline(transaction=False)
        for job in jobs:
            pipe.zscore(self.keys.scheduled, job.member)
            if job.lane:
                pipe.zscore(self.keys.waiting(token_of(job.lane)), job.member)
                pipe.zscore(self.keys.slots(token_of(job.lane)), job.ticket.job_id)
        answers = iter(pipe.execute())
        found = []
        for job in jobs:
            is_on_its_way = next(answers) is not None
            if job.lane:
                is_waiting, admitted_ms = next(answers) is not None, next(answers)
                is_on_its_way |= is_waiting or (admitted_ms is not None and admitted_ms >= to_score(since))
            if not is_on_its_way:
                found.append(job)
        return found

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

    def members(self) -> set[str]:
        """The tickets in the stream, read or not, as members of the set have them."""
        found: set[str] = set()
        start = "-"
        while True:
            entries: Any = self.client.xrange(self.keys.ready, min=start, max="+", count=1000)
            found |= {
                ":".join(fields[name].decode("ascii", "replace") for name in (b"j", b"g", b"a") if name in fields)
                for _, fields in entries
            }
            if len(entries) < 1000:
                return found
            start = f"({entries[-1][0].decode()}"

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
        """Entries in the stream and members of the set; what waits in queues is in neither."""
        pipe = self.client.pipeline(transaction=False)
        pipe.xlen(self.keys.ready)
        pipe.zcard(self.keys.scheduled)
        ready, scheduled = pipe.execute()
        return int(ready), int(scheduled)
