"""The deliverer: one thread that sends claimed jobs to their receivers, hundreds at a time, and hands on what came back.

What happens to a claim, in order:
1. `submit` takes it, from any thread.
2. It gets a slot of its host, or waits for one; when too many wait there, it is handed back unsent, for a while later.
3. Once `may_send` says so (C17) its call begins, and its deadline with it.
4. Its host name is looked up, and each address checked.
5. libcurl connects. It asks before it does: may this address be called? And before it sends: may this worker, still?
6. The answer goes to `on_answers`, in batches of a turn.
A crash after 5 leaves a running row, and the rescuer records the attempt as lost. A crash before leaves the same row,
though the receiver has seen nothing: the claim counted as an attempt, so that a call that kills its worker dies too.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

import structlog

from app.attempts import Claim
from app.clock import Clock
from app.config import Settings
from worker.calls import Answers, Calls, Unsent
from worker.resolver import Resolver
from worker.socket_loop import SocketLoop

logger = structlog.get_logger(__name__)

Result = TypeVar("Result")

PER_HOST = 64
MIN_CONNECTIONS_KEPT = 1024
PAUSE_AFTER_FAULT_SECONDS = 0.05
COMMAND_SECONDS = 5.0
# libcurl calls back about a dozen times a call, and asks for Python's lock each time. Measured on two cores with one
# busy thread beside it: 100 to 1,500 calls/s at the default interval of 5 ms, 900 to 3,000 at this one (7,000 alone).
SWITCH_SECONDS = 0.0001


class Deliverer(threading.Thread):
    """Sends claims. What it is given to call is called from its thread and must not wait for long.

    `on_unsent` takes what too many others wait before, `on_standing` how many claims wait for slow hosts, when that changes.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        resolver: Resolver,
        may_send: Callable[[], bool],
        on_answers: Callable[[Answers], None],
        on_unsent: Callable[[Unsent], None],
        on_standing: Callable[[int], None],
        per_host: int = PER_HOST,
    ) -> None:
        super().__init__(name="deliverer", daemon=True)
        self._on_answers, self._on_unsent, self._on_standing = on_answers, on_unsent, on_standing
        self._standing = 0
        # libcurl counts those in use too: with fewer than that, a busy worker would connect anew for each call.
        self._loop = SocketLoop(max(MIN_CONNECTIONS_KEPT, 2 * settings.worker_concurrency))
        self._calls = Calls(
            settings=settings, clock=clock, resolver=resolver, may_send=may_send, loop=self._loop, per_host=per_host
        )
        self._submitted: deque[Claim] = deque()
        self._commands: deque[Callable[[], None]] = deque()
        self._is_stopping = threading.Event()
        self._counting = threading.Lock()
        self._in_flight = 0
        self.turned_over_at = time.monotonic()

    @property
    def in_flight(self) -> int:
        """How many claims are held. One leaves only after it was handed on: at no moment is it in nobody's hands."""
        return self._in_flight

    def submit(self, claims: Sequence[Claim]) -> None:
        """Takes claims to send. From any thread; returns at once."""
        self._count(len(claims))
        self._submitted.extend(claims)
        self._loop.wake()

    def take_unsent(self) -> list[Claim]:
        """Takes back every claim of which nothing was sent, connecting ones included. From any thread.

        Raises TimeoutError when the thread does not turn over: then nothing was taken.
        """
        return self._ask(self._take_unsent)

    def abandon(self) -> Answers:
        """Ends the calls that were sent and have no answer: their outcome is `lost`. Call `take_unsent` first.

        Raises TimeoutError when the thread does not turn over: then nothing was ended.
        """
        return self._ask(self._abandon)

    def stop(self, timeout_seconds: float = 5.0) -> None:
        """Ends the thread. What it still holds is dropped where it stands: take it out before."""
        self._is_stopping.set()
        self._loop.wake()
        if self.is_alive():
            self.join(timeout_seconds)

    def run(self) -> None:
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))
        while not self._is_stopping.is_set():
            try:
                self._turn()
                self.turned_over_at = time.monotonic()
            except Exception:
                # Not counted as a turn: a fault that comes again each time stops the heartbeat.
                logger.exception("deliverer_turn_failed")
                self._is_stopping.wait(PAUSE_AFTER_FAULT_SECONDS)
        self._calls.close()
        self._loop.close()

    def _turn(self) -> None:
        self._loop.turn(self._calls.patience())
        while self._submitted:
            self._calls.take(self._submitted.popleft())
        while self._commands:
            self._commands.popleft()()
        self._calls.advance()
        self._hand_on()
        standing = self._calls.standing()
        if standing != self._standing:
            self._on_standing(standing)
            self._standing = standing

    def _hand_on(self) -> None:
        # Emptied only after the hand-over went well: after a fault the next turn hands the same claims on again.
        answered, unsent = self._calls.answered, self._calls.unsent
        if answered:
            self._on_answers(answered)
            self._calls.answered = []
            self._count(-len(answered))
        if unsent:
            self._on_unsent(unsent)
            self._calls.unsent = []
            self._count(-len(unsent))

    def _take_unsent(self) -> list[Claim]:
        claims = [*self._submitted, *self._calls.take_unsent()]
        self._submitted.clear()
        self._count(-len(claims))
        return claims

    def _abandon(self) -> Answers:
        answers = self._calls.abandon()
        self._count(-len(answers))
        return answers

    def _count(self, change: int) -> None:
        with self._counting:
            self._in_flight += change

    def _ask(self, command: Callable[[], Result]) -> Result:
        """Runs a command between two turns, in the deliverer's thread."""
        if not self.is_alive():
            return command()
        asked: Future[Result] = Future()

        def run() -> None:
            if asked.set_running_or_notify_cancel():
                try:
                    asked.set_result(command())
                except Exception as error:  # noqa: BLE001 - raised again where the command was asked for
                    asked.set_exception(error)

        self._commands.append(run)
        self._loop.wake()
        try:
            return asked.result(COMMAND_SECONDS)
        except TimeoutError:
            if asked.cancel():
                raise
            return asked.result()
