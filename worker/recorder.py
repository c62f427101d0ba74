"""The last stage: stores what calls came to, many in one statement, and sends retries on their way."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app import circuits, jobs
from app.attempts import Answer, Claim
from app.circuits import Outcome, counts_as_failure
from app.clock import Clock
from app.crash_points import reach
from app.database import autocommit, prepared, transaction
from app.jobs import Recorded, ToRecord, enqueue
from app.meters.attempts import count_recorded, record_seconds
from app.outcomes import Ending, decide
from app.process import OncePerSecond
from app.spans import Spans
from app.stores import Stores
from app.stream import Due, token_of
from worker.hands import Hands

logger = structlog.get_logger(__name__)

BATCH = 256
PAUSE_AFTER_ERROR_SECONDS = 0.5
LOCKED_PAUSE_SECONDS = 0.01


class Recorder(threading.Thread):
    """While PostgreSQL is away, finished results wait here and are stored when it returns."""

    def __init__(
        self, *, stores: Stores, clock: Clock, hands: Hands, circuit_breaker: bool = False, spans: Spans | None = None
    ) -> None:
        super().__init__(name="recorder", daemon=True)
        self._stores = stores
        self._clock = clock
        self._hands = hands
        self._circuit_breaker = circuit_breaker
        self._spans = spans
        self._wake = threading.Condition()
        self._answers: deque[tuple[Claim, Answer]] = deque()
        self._unsent: deque[tuple[Claim, float]] = deque()
        self._busy = False
        self._closing = threading.Event()
        self._may_log = OncePerSecond()
        self.turned_over_at = time.monotonic()

    def answered(self, answers: Sequence[tuple[Claim, Answer]]) -> None:
        """Takes ended attempts, to be recorded."""
        with self._wake:
            self._answers.extend(answers)
            self._wake.notify()

    def unsent(self, claims: Sequence[Claim]) -> None:
        """Takes claims that were never sent, to be handed back and read again at once."""
        self.crowded_out([(claim, 0.0) for claim in claims])

    def crowded_out(self, claims: Sequence[tuple[Claim, float]]) -> None:
        """Takes claims that were never sent, to be handed back and read again after so many seconds each."""
        with self._wake:
            self._unsent.extend(claims)
            self._wake.notify()

    @property
    def is_idle(self) -> bool:
        with self._wake:
            return not (self._busy or self._answers or self._unsent)

    def close(self) -> None:
        """Ends the thread after what it is doing now; what it still has is for `left`."""
        self._closing.set()
        with self._wake:
            self._wake.notify()

    def left(self) -> list[tuple[Claim, Answer]]:
        """Results that could not be stored."""
        return list(self._answers)

    def run(self) -> None:
        while not self._closing.is_set():
            self.turned_over_at = time.monotonic()
            answers, unsent = self._next()
            try:
                self._hand_back(unsent)
                unsent = []
                self._record(answers)
            except SQLAlchemyError as error:
                self._again(answers, unsent)
                if self._may_log():
                    logger.warning("record_failed", waiting=len(self._answers), error=str(error).splitlines()[0])
                self._closing.wait(PAUSE_AFTER_ERROR_SECONDS)
            except Exception:
                self._again(answers, unsent)
                logger.exception("recorder_failed")
                self._closing.wait(PAUSE_AFTER_ERROR_SECONDS)

    def _next(self) -> tuple[list[tuple[Claim, Answer]], list[tuple[Claim, float]]]:
        with self._wake:
            self._busy = False
            self._wake.wait_for(lambda: bool(self._answers or self._unsent or self._closing.is_set()), 0.5)
            answers = self._take_batch()
            unsent = [self._unsent.popleft() for _ in range(min(len(self._unsent), BATCH))]
            self._busy = bool(answers or unsent)
            return answers, unsent

    def _take_batch(self) -> list[tuple[Claim, Answer]]:
        """Up to BATCH answers, each job once: two attempts of one job cannot be recorded by one statement."""
        batch: list[tuple[Claim, Answer]] = []
        seen = set()
        while self._answers and len(batch) < BATCH and self._answers[0][0].job_id not in seen:
            claim, answer = self._answers.popleft()
            seen.add(claim.job_id)
            batch.append((claim, answer))
        return batch

    def _again(self, answers: Sequence[tuple[Claim, Answer]], unsent: Sequence[tuple[Claim, float]]) -> None:
        with self._wake:
            self._answers.extendleft(reversed(answers))
            self._unsent.extendleft(reversed(unsent))

    def _record(self, answers: Sequence[tuple[Claim, Answer]]) -> None:
        """Stores a batch, then adds retries, and the jobs that tell how others ended, to Redis. A crash between the two: loader or rescuer brings them in."""
        if not answers:
            return
        reach("answered")
        now = self._clock.now()
        batch = []
        for claim, answer in answers:
            worker = self._hands.worker_of(claim)
            if worker is not None:
                batch.append(ToRecord(_ending(claim, answer, now), worker))
        with record_seconds.time(), prepared(self._stores.engine) as conn:
            recorded = jobs.record(conn, batch)
        count_recorded(recorded)
        if self._spans is not None:
            for item in recorded:
                if item.outcome != "again":
                    self._spans.ended(item.ending.claim, item.ending.answer)
        reach("recorded")
        locked = [(item.ending.claim, item.ending.answer) for item in recorded if item.outcome == "again"]
        self._hands.release([item.ending.claim for item in recorded if item.outcome != "again"])
        self._follow_up(recorded)
        self._release([item.ending.claim for item in recorded if item.outcome != "again"])
        try:
            self._count_by_host(recorded)
        except SQLAlchemyError as error:
            logger.warning("circuits_not_counted", error=str(error).splitlines()[0])
        if locked:
            self._again(locked, [])
            self._closing.wait(LOCKED_PAUSE_SECONDS)

    def _follow_up(self, recorded: Sequence[Recorded]) -> None:
        for item in recorded:
            claim = item.ending.claim
            if item.outcome == "late":
                logger.warning("late_result", job_id=str(claim.job_id), attempt=claim.attempt)
            elif item.outcome == "applied" and item.status != "done":
                logger.info(
                    "attempt_failed",
                    job_id=str(claim.job_id),
                    execution=claim.number,
                    client=claim.client_id,
                    error_class=item.ending.answer.error_class,
                    status_code=item.ending.answer.status_code,
                    status=item.status,
                )
        due = [job for item in recorded for job in item.due]
        if due and recorded[0].now is not None:
            enqueue(self._stores, due, recorded[0].now)

    def _count_by_host(self, recorded: Sequence[Recorded]) -> None:
        """Tells the circuit breaker, where it is on. If PostgreSQL goes away now, these counts are lost, and nothing else."""
        outcomes = []
        for item in recorded:
            claim, answer = item.ending.claim, item.ending.answer
            is_on = self._circuit_breaker if claim.circuit_breaker is None else claim.circuit_breaker
            is_failure = counts_as_failure(answer.error_class, answer.status_code) if is_on else None
            if is_failure is not None and item.outcome == "applied":
                outcomes.append(Outcome(claim.client_id, claim.callback_host, claim.job_id, is_failure))
        if not outcomes:
            return
        with transaction(self._stores.engine) as conn:
            changes = circuits.record(conn, outcomes)
        for change in changes:
            logger.warning(
                f"circuit_{change.change}", client=change.client_id, host=change.host, retry_at=change.retry_at
            )

    def _release(self, claims: Sequence[Claim]) -> None:
        """Gives up the slots of limited queues. If Redis is away, the leader's sweep finds them."""
        slots = [(token_of(claim.lane), str(claim.job_id)) for claim in claims if claim.is_limited]
        if slots:
            now = self._clock.now()
            self._stores.bypass.call("release", lambda: self._stores.stream.release(slots, now), None)

    def _hand_back(self, unsent: Sequence[tuple[Claim, float]]) -> None:
        """Gives unsent claims back, each under the identity that claimed it, and adds them to Redis for when they may be read."""
        pauses = {str(claim.job_id): seconds for claim, seconds in unsent}
        by_worker: dict[UUID, list[Claim]] = {}
        for claim, _ in unsent:
            worker = self._hands.worker_of(claim)
            if worker is not None:
                by_worker.setdefault(worker, []).append(claim)
        for worker, held in by_worker.items():
            with autocommit(self._stores.engine) as conn:
                back = jobs.hand_back(conn, worker, held)
            self._hands.release([claim for claim in held if claim not in back.locked])
            self._release([claim for claim in held if claim not in back.locked])
            if back.now is not None:
                now = back.now
                # They are due all the while: a pause only keeps them from being read, as one put back at the claim (C4).
                paused = [
                    Due(job.ticket, _later(job.run_at, now, pauses[job.ticket.job_id]), job.lane) for job in back.jobs
                ]
                enqueue(self._stores, paused, now)
            if back.locked:
                self._again([], [(claim, pauses[str(claim.job_id)]) for claim in back.locked])
                self._closing.wait(LOCKED_PAUSE_SECONDS)


def _later(run_at: datetime, now: datetime, seconds: float) -> datetime:
    return now + timedelta(seconds=seconds) if seconds else run_at


def _ending(claim: Claim, answer: Answer, now: datetime) -> Ending:
    """What the answer means. One that cannot be read is taken without its headers: it must not hold up the batch (C6)."""
    try:
        return decide(claim, answer, now, random.random())
    except Exception:
        logger.exception("answer_not_readable", job_id=str(claim.job_id), attempt=claim.attempt)
        return decide(claim, replace(answer, response_headers=()), now, random.random())
