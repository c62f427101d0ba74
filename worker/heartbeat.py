"""The worker's sign of life: beats while all three stages turn over, and notices when it was declared lost (C17)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import structlog

from app import processes
from app.attempts import Claim
from app.clock import Clock, boottime
from app.database import autocommit
from app.jobs import extend_leases
from app.processes import BEAT_SECONDS
from app.stores import Stores
from worker.hands import Hands
from worker.identity import Identity

logger = structlog.get_logger(__name__)

# A stage that has not turned over for so long does no work: the worker stops beating and is declared lost.
STUCK_SECONDS = 15.0
RETRY_SECONDS = 0.5


class Heartbeat:
    """`step` is one beat."""

    def __init__(
        self,
        *,
        stores: Stores,
        clock: Clock,
        identity: Identity,
        hands: Hands,
        stages: Sequence[Any],
        take_unsent: Callable[[], list[Claim]],
    ) -> None:
        self._stores = stores
        self._clock = clock
        self._identity = identity
        self._hands = hands
        self._stages = stages
        self._take_unsent = take_unsent

    def register(self) -> None:
        """Makes the row of this identity; before that nothing is claimed and nothing sent."""
        sent_at = boottime()
        with autocommit(self._stores.engine) as conn:
            self._clock.sync(processes.register(conn, self._identity.id, "worker"))
        self._identity.beaten(sent_at)

    def step(self) -> float:
        """Beats and extends leases. Returns the seconds until the next beat."""
        stuck = [stage.name for stage in self._stages if time.monotonic() - stage.turned_over_at > STUCK_SECONDS]
        if stuck:
            logger.error("stage_stuck", stages=stuck)
            return RETRY_SECONDS
        worker = self._identity.id
        sent_at = boottime()
        with autocommit(self._stores.engine) as conn:
            now = processes.beat(conn, worker, {"in_flight": len(self._hands), "places": self._hands.places})
            if now is not None:
                extend_leases(conn, worker, self._hands.held_by(worker))
        if now is None:
            self._start_anew(worker)
            return 0.0
        self._clock.sync(now)
        self._identity.beaten(sent_at)
        return BEAT_SECONDS

    def _start_anew(self, worker: UUID) -> None:
        """Declared lost: what was not sent is dropped, for the rescuer has it; what was sent is recorded when it ends.

        Raises TimeoutError when the deliverer does not turn over; the old name stays, nothing is sent under it, and the next
        beat tries again.
        """
        with self._identity.lock:
            dropped = self._take_unsent()
            fresh = self._identity.renew()
            self._hands.release(dropped)
        logger.warning("declared_lost", worker=str(worker), new_worker=str(fresh), dropped=len(dropped))
        self.register()
