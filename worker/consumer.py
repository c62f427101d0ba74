"""The first stage: reads the ready stream, claims, acknowledges, and hands the claims to the deliverer."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import redis
import structlog
from sqlalchemy.exc import SQLAlchemyError

from app import jobs
from app.attempts import Claim
from app.circuits import begin_probe
from app.clock import Clock
from app.crash_points import reach
from app.database import autocommit, is_about_a_row, prepared, transaction
from app.meters.attempts import claim_seconds
from app.process import OncePerSecond
from app.spans import Spans
from app.stores import Stores
from app.stream import Due, Held, Read, Ticket
from worker.hands import Hands
from worker.identity import Identity

logger = structlog.get_logger(__name__)

BLOCK_MS = 500
BATCH = 256
# When few places are free, wait this long for more.
GATHER_SECONDS = 0.003
PAUSE_AFTER_ERROR_SECONDS = 0.5
# While another job tries an open circuit, the others look again after this long, or up to twice as long.
HELD_PAUSE = timedelta(seconds=2)


class Consumer(threading.Thread):
    """Never reads more than there are free places, and nothing while its beats do not go through."""

    def __init__(
        self,
        *,
        stores: Stores,
        clock: Clock,
        identity: Identity,
        hands: Hands,
        deliver: Callable[[Sequence[Claim]], None],
        stopping: threading.Event,
        spans: Spans | None = None,
    ) -> None:
        super().__init__(name="consumer", daemon=True)
        self._stores = stores
        self._clock = clock
        self._identity = identity
        self._hands = hands
        self._deliver = deliver
        self._stopping = stopping
        self._spans = spans
        self._may_log = OncePerSecond()
        # C15, C7: at the start and after an error, first what was delivered and never seen, and claimed and never seen.
        self._look_back = True
        self._take_up = False
        self.turned_over_at = time.monotonic()

    def run(self) -> None:
        while not self._stopping.is_set():
            self.turned_over_at = time.monotonic()
            try:
                self.step()
            except redis.RedisError as error:
                self._after_redis_error(error)
            except SQLAlchemyError as error:
                self._look_back = True
                self._take_up = True
                self._pause("claim_failed", error)
            except Exception as error:
                self._look_back = True
                logger.exception("consumer_failed")
                self._pause("consumer_failed", error)
        self._leave()

    def step(self) -> int:
        """Reads one batch and claims it. Returns how many entries it read."""
        places = self._hands.wait_for_places(min(BATCH, self._hands.places // 4) or 1, GATHER_SECONDS)
        if places <= 0 or not self._identity.may_send():
            self._hands.wait_for_places(1, 0.05)
            if not self._identity.may_send():
                self._stopping.wait(0.05)
            return 0
        worker = self._identity.id
        if self._take_up:
            self._take_up_lost(worker, places)
            return 0
        count = min(places, BATCH)
        if self._look_back:
            read = self._stores.stream.read_pending(str(worker), count)
            self._look_back = bool(read)
        else:
            read = self._stores.stream.read(str(worker), count, BLOCK_MS)
        if read:
            self._claim(worker, read)
        return len(read)

    def _claim(self, worker: UUID, read: Sequence[Read]) -> None:
        """Claims a batch (C4).

        1. The claim is committed. A crash after it: the rows run under a worker that stops beating, and are found lost.
           What had no room in the batch's bytes is claimed next, in the same way.
        2. What still waits goes back into the set, and the batch is acknowledged and deleted, in one MULTI. If that fails, the
           entries stay pending and are found stale when they are read again.
        3. The claims go to the deliverer, whether or not step 2 went well.
        """
        bad = [entry for entry in read if entry.ticket is None]
        tickets = [entry.ticket for entry in read if entry.ticket is not None]
        put_back: list[Due] = []
        limited: list[Due] = []
        tried: set[str] = set()
        while tickets:
            with claim_seconds.time(), prepared(self._stores.engine) as conn:
                claimed = jobs.claim(conn, worker, tickets)
            if claimed.now is not None:
                self._clock.sync(claimed.now)
            self._hand_over(worker, claimed.claims)
            put_back += claimed.put_back
            limited += claimed.limited
            may_try = self._begin_probes(claimed.held, tried)
            put_back += [self._later(job) for job in claimed.held if job.ticket not in may_try]
            tickets = [*claimed.beyond, *may_try]
        held = self._claim_limited(worker, limited) if limited else None
        reach("before_acknowledge")
        self._stores.stream.finish(read, put_back, self._clock.now(), held)
        if bad:
            logger.error("bad_stream_entries", entries=[entry.entry_id.decode() for entry in bad])
            self._stores.stream.note_bad(bad)

    def _begin_probes(self, held: Sequence[Due], tried: set[str]) -> list[Ticket]:
        """Of the jobs whose circuits are open, those that may try them now, each once a batch."""
        now, found = self._clock.now(), []
        for job in held:
            if job.run_at <= now and job.ticket.job_id not in tried:
                tried.add(job.ticket.job_id)
                with autocommit(self._stores.engine) as conn:
                    if begin_probe(conn, UUID(job.ticket.job_id)):
                        found.append(job.ticket)
        return found

    def _later(self, held: Due) -> Due:
        """When a job looks again whose circuit is open: after it may be tried, and not all at once."""
        at = max(held.run_at, self._clock.now() + HELD_PAUSE)
        return replace(held, run_at=at + HELD_PAUSE * random.random())

    def _claim_limited(self, worker: UUID, due: Sequence[Due]) -> Held:
        """Claims from limited queues. A batch that fails for what one of its rows holds is claimed one by one (C6)."""
        try:
            with claim_seconds.time(), transaction(self._stores.engine) as conn:
                claimed = jobs.claim_limited(conn, worker, due)
        except SQLAlchemyError as error:
            if not is_about_a_row(error):
                raise
            if len(due) > 1:
                parts = [self._claim_limited(worker, [job]) for job in due]
                return Held.joined(parts)
            with autocommit(self._stores.engine) as conn:
                jobs.bury_unclaimable(conn, due[0].ticket, error)
            return Held()
        if claimed.now is not None:
            self._clock.sync(claimed.now)
        self._hand_over(worker, claimed.claims)
        return claimed.held

    def _hand_over(self, worker: UUID, claims: Sequence[Claim]) -> None:
        """To the deliverer, unless this worker was declared lost since it claimed: then the rescuer has them."""
        if not claims:
            return
        with self._identity.lock:
            if worker != self._identity.id:
                logger.warning("claims_dropped", worker=str(worker), count=len(claims))
                return
            reach("claimed")
            if self._spans is not None:
                claims = [self._spans.named(claim) for claim in claims]
            self._hands.take(claims, worker)
            self._deliver(claims)

    def _take_up_lost(self, worker: UUID, places: int) -> None:
        with autocommit(self._stores.engine) as conn:
            found = jobs.take_up(conn, worker, self._hands.held_by(worker), places)
        self._take_up = False
        if found:
            logger.warning("claims_taken_up", worker=str(worker), count=len(found))
            self._hand_over(worker, found)

    def _after_redis_error(self, error: redis.RedisError) -> None:
        self._look_back = True
        if "NOGROUP" in str(error) or "UNBLOCKED" in str(error):
            try:
                self._stores.stream.create_group()
                return
            except redis.RedisError as second:
                error = second
        self._pause("stream_not_readable", error)

    def _pause(self, event: str, error: Exception) -> None:
        if self._may_log():
            logger.warning(event, error=str(error).splitlines()[0] if str(error) else repr(error))
        self._stopping.wait(PAUSE_AFTER_ERROR_SECONDS)

    def _leave(self) -> None:
        """Adds again what was read and not claimed, so that another worker need not wait for it (C19)."""
        try:
            while read := self._stores.stream.read_pending(str(self._identity.id), BATCH):
                now = self._clock.now()
                self._stores.stream.add([Due(entry.ticket, now, entry.lane) for entry in read if entry.ticket], now)
                self._stores.stream.finish(read, [], now)
        except (redis.RedisError, RuntimeError) as error:
            logger.warning("entries_left_pending", error=str(error))
