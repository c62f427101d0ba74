"""One scheduler process: stands by, and while it leads runs the small loops, each in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from uuid import UUID

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app import processes
from app.clock import Clock, boottime
from app.config import Settings
from app.database import autocommit
from app.ids import uuid7
from app.meters.scheduler import scheduler_registry
from app.probes import serve
from app.process import Loop
from app.processes import BEAT_SECONDS, SILENCE_SECONDS
from app.stores import Stores, loop_stores
from scheduler.bulk import Bulk
from scheduler.cron import Cron
from scheduler.expirer import Expirer
from scheduler.leader import Leadership
from scheduler.loader import Loader
from scheduler.marks import Marks
from scheduler.promoter import Promoter
from scheduler.pruner import Pruner
from scheduler.queues import Queues
from scheduler.rebuilder import Rebuilder
from scheduler.rescuer import Rescuer

logger = structlog.get_logger(__name__)

CONNECTIONS = 10
STANDBY_PAUSE_SECONDS = 0.1
WATCH_SECONDS = 0.2
START_PAUSE_SECONDS = 1.0


class Beats:
    """This process's own sign of life, and for how long it has gone through without a gap."""

    def __init__(self, stores: Stores, clock: Clock, process_id: UUID, leads: Callable[[], bool]) -> None:
        self._stores = stores
        self._clock = clock
        self._leads = leads
        self.id = process_id
        self._last_told: float | None = None
        self._last_heard = self._steady_since = boottime()

    def step(self) -> float:
        """One beat; a row that was declared lost or removed is made again."""
        with autocommit(self._stores.engine) as conn:
            now = processes.beat(conn, self.id, {"leads": self._leads()})
            if now is None:
                now = processes.register(conn, self.id, "scheduler")
        self._clock.sync(now)
        heard, told = boottime(), now.timestamp()
        if self._last_told is not None:
            gap = max(heard - self._last_heard, abs(told - self._last_told))
            if gap > SILENCE_SECONDS / 2:
                self._steady_since = heard
        self._last_heard, self._last_told = heard, told
        return BEAT_SECONDS

    def steady_seconds(self) -> float:
        """Seconds without a gap; 0 when the last beat itself is overdue."""
        now = boottime()
        return 0.0 if now - self._last_heard > SILENCE_SECONDS / 2 else now - self._steady_since


class Scheduler:
    def __init__(self, settings: Settings, stopping: threading.Event) -> None:
        self._settings = settings
        self._stopping = stopping
        self._stores = loop_stores(settings, CONNECTIONS)
        self._clock = Clock()
        process_id = uuid7()
        self.leadership = Leadership(self._stores, self._clock, process_id)
        self._beats = Beats(self._stores, self._clock, process_id, lambda: self.leadership.leads)
        epoch_lost = threading.Event()
        self._marks = Marks(self._stores, self._clock)
        duties: dict[str, Callable[[], float]] = {
            "promoter": Promoter(self._stores, self._clock, epoch_lost).run_once,
            "loader": Loader(self._stores, self._clock).run_once,
            "rebuilder": Rebuilder(self._stores, self._clock, epoch_lost).run_once,
            "marks": self._marks.run_once,
            "rescuer": Rescuer(self._stores, self._clock, self._beats.steady_seconds).run_once,
            "queues": Queues(self._stores, self._clock).run_once,
            "expirer": Expirer(self._stores).run_once,
            "bulk": Bulk(self._stores).run_once,
            "cron": Cron(self._stores).run_once,
            "pruner": Pruner(self._stores, settings.retention_days, settings.dead_retention_days).run_once,
        }
        self._loops = [Loop(name, self._while_leading(name, duty), stopping) for name, duty in duties.items()]
        self._loops.append(Loop("beats", self._beats.step, stopping))
        self._loops.append(Loop("leader", self.leadership.step, stopping))

    def _while_leading(self, name: str, duty: Callable[[], float]) -> Callable[[], float]:
        def step() -> float:
            if not self.leadership.leads:
                if name == "marks":
                    self._marks.reset()
                # Woken when the lead is taken, so that a new leader's first pass comes at once.
                self.leadership.taken.wait(STANDBY_PAUSE_SECONDS)
                return 0.0 if self.leadership.leads else STANDBY_PAUSE_SECONDS
            return duty()

        return step

    def run(self) -> int:
        """Works until told to stop; gives up the lead on the way out. Returns the exit status."""
        if not self._register():
            return 0
        for loop in self._loops:
            loop.start()
        registry = scheduler_registry(self._stores.engine, lambda: self.leadership.leads, self._turns)
        serve(self._settings, lambda: all(loop.is_alive() for loop in self._loops), registry)
        logger.info("scheduler_started", scheduler=str(self._beats.id))
        status = 0
        while not self._stopping.wait(WATCH_SECONDS):
            dead = [loop.name for loop in self._loops if not loop.is_alive()]
            if dead:
                logger.error("loop_died", loops=dead)
                status = 1
                self._stopping.set()
        for loop in self._loops:
            loop.join(2.0)
        self._leave()
        return status

    def _turns(self) -> dict[str, float]:
        return {loop.name: loop.turned_over_at for loop in self._loops}

    def _register(self) -> bool:
        """Waits for PostgreSQL. False when told to stop meanwhile."""
        while not self._stopping.is_set():
            try:
                self._beats.step()
                return True
            except SQLAlchemyError as error:
                logger.warning("postgresql_away", error=str(error).splitlines()[0])
                self._stopping.wait(START_PAUSE_SECONDS)
        return False

    def _leave(self) -> None:
        try:
            self.leadership.give_up()
            with autocommit(self._stores.engine) as conn:
                processes.stop(conn, self._beats.id)
        except SQLAlchemyError as error:
            logger.warning("stop_not_noted", error=str(error).splitlines()[0])
        logger.info("scheduler_stopped", scheduler=str(self._beats.id))
