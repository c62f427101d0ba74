"""One worker process: starts the stages, watches them, and winds them down in order (C19)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app import processes
from app.clock import Clock
from app.config import Settings
from app.database import autocommit
from app.meters.worker import worker_registry
from app.probes import serve
from app.process import Loop
from app.spans import start_spans
from app.stores import loop_stores
from worker.consumer import Consumer
from worker.deliverer import Deliverer
from worker.hands import Hands
from worker.heartbeat import Heartbeat
from worker.identity import Identity
from worker.recorder import Recorder
from worker.resolver import Resolver

logger = structlog.get_logger(__name__)

CONNECTIONS = 4
WATCH_SECONDS = 0.2
# A stage that has not turned over for so long is stuck.
STUCK_SECONDS = 60.0
START_PAUSE_SECONDS = 1.0


class Worker:
    """Consumer, deliverer and recorder with their heartbeat."""

    def __init__(self, settings: Settings, stopping: threading.Event) -> None:
        self._settings = settings
        self._stopping = stopping
        self._beats_stopping = threading.Event()
        self._stores = loop_stores(settings, CONNECTIONS)
        self._clock = Clock()
        self._identity = Identity()
        self._hands = Hands(settings.worker_concurrency)
        self._spans = start_spans(settings, "worker")
        self.recorder = Recorder(
            stores=self._stores,
            clock=self._clock,
            hands=self._hands,
            circuit_breaker=settings.circuit_breaker,
            spans=self._spans,
        )
        self.deliverer = Deliverer(
            settings=settings,
            clock=self._clock,
            resolver=Resolver(),
            may_send=self._identity.may_send,
            on_answers=self.recorder.answered,
            on_unsent=self.recorder.crowded_out,
            on_standing=self._hands.note_standing,
        )
        self.consumer = Consumer(
            stores=self._stores,
            clock=self._clock,
            identity=self._identity,
            hands=self._hands,
            deliver=self.deliverer.submit,
            stopping=stopping,
            spans=self._spans,
        )
        self.stages = (self.consumer, self.deliverer, self.recorder)
        self._heartbeat = Heartbeat(
            stores=self._stores,
            clock=self._clock,
            identity=self._identity,
            hands=self._hands,
            stages=self.stages,
            take_unsent=self.deliverer.take_unsent,
        )

    def run(self) -> int:
        """Works until told to stop. Returns the exit status: 0 in order, 1 when a stage died."""
        if not self._register():
            return 0
        for stage in self.stages:
            stage.start()
        beats = Loop("heartbeat", self._heartbeat.step, self._beats_stopping)
        beats.start()
        registry = worker_registry(self._stores.engine, lambda: len(self._hands), self._settings.worker_concurrency)
        probes = serve(self._settings, self._is_alive, registry)
        logger.info("worker_started", worker=str(self._identity.id), concurrency=self._settings.worker_concurrency)
        while not self._stopping.wait(WATCH_SECONDS):
            dead = [thread.name for thread in (*self.stages, beats) if not thread.is_alive()]
            if dead:
                logger.error("stage_died", stages=dead)
                self._stopping.set()
                self._wind_down()
                return 1
        if probes is not None:
            probes.shutdown()
        self._wind_down()
        return 0

    def _is_alive(self) -> bool:
        """Whether every stage has turned over lately; while PostgreSQL is away they do."""
        return all(time.monotonic() - stage.turned_over_at < STUCK_SECONDS for stage in self.stages)

    def _register(self) -> bool:
        """Waits for PostgreSQL. False when told to stop meanwhile."""
        while not self._stopping.is_set():
            try:
                self._heartbeat.register()
                return True
            except SQLAlchemyError as error:
                logger.warning("postgresql_away", error=str(error).splitlines()[0])
                self._stopping.wait(START_PAUSE_SECONDS)
        return False

    def _wind_down(self) -> None:
        """C19: stop reading, hand back what was not sent, let the rest end within the grace, record it, leave."""
        deadline = time.monotonic() + self._settings.shutdown_grace_seconds
        self.consumer.join(max(0.0, deadline - time.monotonic()) + 1.0)
        try:
            self.recorder.unsent(self.deliverer.take_unsent())
            _wait_until(lambda: self.deliverer.in_flight == 0, deadline)
            # What was held back just before its send (C17) waits again and is unsent still.
            self.recorder.unsent(self.deliverer.take_unsent())
            self.recorder.answered(self.deliverer.abandon())
        except TimeoutError:
            logger.error("deliverer_stuck", in_flight=self.deliverer.in_flight)
        self.deliverer.stop()
        _wait_until(lambda: self.recorder.is_idle, max(deadline, time.monotonic() + 1.0))
        self.recorder.close()
        self.recorder.join(5.0)
        for claim, answer in self.recorder.left():
            logger.error(
                "result_not_stored", job_id=str(claim.job_id), attempt=claim.attempt, status_code=answer.status_code
            )
        self._beats_stopping.set()
        try:
            with autocommit(self._stores.engine) as conn:
                processes.stop(conn, self._identity.id)
        except SQLAlchemyError as error:
            logger.warning("stop_not_noted", error=str(error).splitlines()[0])
        logger.info("worker_stopped", worker=str(self._identity.id))


def _wait_until(condition: Callable[[], bool], deadline: float) -> None:
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
