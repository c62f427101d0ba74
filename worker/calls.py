"""All calls of one deliverer, from waiting for a host's slot to the outcome. Owned by the deliverer's thread."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from functools import lru_cache

import structlog

from app.attempts import Answer, Claim
from app.callback_url import CallbackUrlRefused, Target, parse
from app.callbacks.addresses import NO_LOOKUP, Finding
from app.callbacks.call import Call, failure
from app.callbacks.outcome import LOST, WORKER_FAULT, lookup_timeout
from app.clock import Clock
from app.config import Settings
from app.queues.limits import ARRIVAL_SPREAD
from worker.host_slots import HostSlots, Place
from worker.lookups import Lookups
from worker.resolver import Resolver
from worker.socket_loop import SocketLoop

logger = structlog.get_logger(__name__)

Answers = list[tuple[Claim, Answer]]
# With the seconds after which each may be read again.
Unsent = list[tuple[Claim, float]]
Pending = tuple[Claim, Target]

IDLE_TURN_SECONDS = 0.5
# While this worker may not send, it looks this often whether it may again.
HELD_TURN_SECONDS = 0.02
# So that a large batch does not keep answers waiting, and other threads get their turn.
STARTS_A_TURN = 128
# While somebody waits for a host, it looks this often who stands still.
STANDING_TURN_SECONDS = 0.05
MIN_PAUSE_SECONDS = 0.1
# Well below the grace of marks (C16), which would take what is away for longer for lost.
MAX_PAUSE_SECONDS = 2.0
MAX_SPARE_CALLS = 1024


class Calls:
    """`answered` and `unsent` collect what is to be handed on; whoever takes it from there empties them."""

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        resolver: Resolver,
        may_send: Callable[[], bool],
        loop: SocketLoop,
        per_host: int,
    ) -> None:
        self._settings, self._clock, self._may_send, self._loop = settings, clock, may_send, loop
        self._lookups: Lookups[Call] = Lookups(resolver, settings, loop.wake)
        self._slots: HostSlots[Pending] = HostSlots(per_host)
        allowed = settings.allowed_callback_cidrs
        self._parse = lru_cache(maxsize=4096)(lambda url: parse(url, allowed))
        self._ready: deque[Pending] = deque()
        self._is_held = False
        self._sending: set[Call] = set()
        self._spare: list[Call] = []
        self.answered: Answers = []
        self.unsent: Unsent = []

    def patience(self) -> float:
        """How long a turn may wait when nothing happens, in seconds."""
        if self._ready:
            return HELD_TURN_SECONDS if self._is_held else 0.0
        most = STANDING_TURN_SECONDS if self._slots.is_anyone_waiting else IDLE_TURN_SECONDS
        deadline = self._lookups.next_deadline()
        return most if deadline is None else min(most, max(0.0, deadline - time.monotonic()))

    def standing(self) -> int:
        """How many claims wait for hosts that are slow to let them in."""
        return self._slots.standing(time.monotonic())

    def take(self, claim: Claim) -> None:
        """A new claim: it gets a slot of its host, waits for one, or is unsent because too many wait there."""
        try:
            target = self._parse(claim.callback_url)
        except CallbackUrlRefused as refused:
            self.answered.append((claim, failure(self._clock.now(), "blocked", str(refused))))
            return
        except Exception:
            logger.exception("claim_not_taken", job_id=str(claim.job_id))
            self.answered.append((claim, failure(self._clock.now(), "protocol", WORKER_FAULT)))
            return
        now = time.monotonic()
        place = self._slots.offer(target.key, (claim, target), now)
        if place is Place.TAKEN:
            self._ready.append((claim, target))
        elif place is Place.REFUSED:
            # A quick host has room again soon; one that stands still is left alone for longer and longer.
            wait_seconds = self._slots.wait_seconds(target.key, now)
            self.unsent.append((claim, min(max(wait_seconds, MIN_PAUSE_SECONDS), MAX_PAUSE_SECONDS)))

    def advance(self) -> None:
        """Moves each call on by what has happened since the last turn."""
        for call, finding in self._lookups.arrived():
            self._send(call, finding)
        for call in self._lookups.expired(time.monotonic()):
            if self._settings.egress_proxy is None:
                self._answer(call, call.failure(*lookup_timeout(call.claim)))
            else:
                self._send(call, NO_LOOKUP)
        self._start_ready()
        for curl, code, message in self._loop.finished():
            self._finish(curl.call, code, message)

    def take_unsent(self) -> list[Claim]:
        """Takes out every claim of which nothing was sent, those that wait, look up or connect included."""
        claims = [claim for claim, _ in (*self._slots.drain(), *self._ready)]
        for _, target in self._ready:
            self._slots.release(target.key)
        self._ready.clear()
        connecting = self._end_sending(lambda call: not call.sends)
        for call in (*self._lookups.drain(), *connecting):
            claims.append(call.claim)
            self._leave(call)
        return claims

    def abandon(self) -> Answers:
        """Ends what was sent and has no answer, as lost."""
        answers: Answers = []
        for call in self._end_sending(lambda call: call.sends > 0):
            answers.append((call.claim, call.failure("lost", LOST)))
            self._leave(call)
        return answers

    def close(self) -> None:
        """Ends every transfer where it stands."""
        self._end_sending(lambda _: True)

    def _start_ready(self) -> None:
        self._is_held = False
        if not self._ready:
            return
        now = self._clock.now()
        for _ in range(min(STARTS_A_TURN, len(self._ready))):
            if not self._may_send():
                self._is_held = True
                return
            claim, target = self._ready.popleft()
            if claim.is_rated and now - claim.claimed_at > ARRIVAL_SPREAD:
                # Its start was counted when it was claimed, and would be seen there in another span.
                self._hand_back(claim, target)
                continue
            call = self._spare.pop() if self._spare else Call(self._settings, self._may_send)
            call.begin(claim, target, now)
            finding = NO_LOOKUP if target.address is not None else self._lookups.known(target.host)
            if finding is None:
                self._lookups.wait(target.host, call, call.lookup_deadline)
            else:
                self._send(call, finding)

    def _hand_back(self, claim: Claim, target: Target) -> None:
        self.unsent.append((claim, 0.0))
        following = self._slots.release(target.key)
        if following is not None:
            self._ready.append(following)

    def _send(self, call: Call, finding: Finding) -> None:
        """Gives the call to libcurl. What cannot be built fails alone."""
        if finding.error_class is not None:
            self._answer(call, call.failure(finding.error_class, finding.error or ""))
            return
        try:
            call.arm(finding.addresses)
            self._loop.add(call.curl)
        except ValueError as error:
            self._answer(call, call.failure("protocol", f"The request could not be built: {error}"))
        except Exception:
            logger.exception("call_not_started", job_id=str(call.claim.job_id))
            self._answer(call, call.failure("protocol", WORKER_FAULT))
        else:
            self._sending.add(call)

    def _finish(self, call: Call, code: int, message: str) -> None:
        self._sending.discard(call)
        if call.is_held:
            # Nothing went out. It keeps its slot, goes first when the worker may send again, and its deadline anew.
            self._ready.appendleft((call.claim, call.target))
            self._recycle(call)
            return
        try:
            answer = call.answer(code, message)
        except Exception:
            logger.exception("answer_not_read", job_id=str(call.claim.job_id))
            answer = call.failure("protocol", WORKER_FAULT)
        self._answer(call, answer)

    def _end_sending(self, is_meant: Callable[[Call], bool]) -> list[Call]:
        ended = [call for call in self._sending if is_meant(call)]
        for call in ended:
            self._loop.remove(call.curl)
        self._sending.difference_update(ended)
        return ended

    def _answer(self, call: Call, answer: Answer) -> None:
        self.answered.append((call.claim, answer))
        self._leave(call)

    def _leave(self, call: Call) -> None:
        """The call's slot goes to the next in line at its host."""
        following = self._slots.release(call.target.key)
        if following is not None:
            self._ready.append(following)
        self._recycle(call)

    def _recycle(self, call: Call) -> None:
        call.release()
        if len(self._spare) < MAX_SPARE_CALLS:
            self._spare.append(call)
        else:
            call.curl.close()
