"""Calls that wait for their host name: one question a name, each call's own deadline, and every address checked."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Generic, TypeVar

from app.callbacks.addresses import Finding, Resolution, checked
from app.config import Settings
from worker.resolver import Resolver

Waiter = TypeVar("Waiter")


class Lookups(Generic[Waiter]):
    """Owned by the deliverer's thread; the resolver's threads only leave their answers and wake it."""

    def __init__(self, resolver: Resolver, settings: Settings, wake: Callable[[], None]) -> None:
        self._resolver, self._wake = resolver, wake
        self._allowed, self._is_proxied = settings.allowed_callback_cidrs, settings.egress_proxy is not None
        self._arrived: deque[tuple[str, Resolution]] = deque()
        self._tickets = count()
        self._waiting: dict[int, Waiter] = {}
        self._by_host: dict[str, list[int]] = {}
        self._deadlines: list[tuple[float, int]] = []

    def known(self, host: str) -> Finding | None:
        """What is known of this name already, or None."""
        resolution = self._resolver.cached(host)
        return None if resolution is None else self._check(resolution)

    def wait(self, host: str, waiter: Waiter, deadline: float) -> None:
        """Asks for the name. The waiter comes out of `arrived` or of `expired`, once."""
        ticket = next(self._tickets)
        self._waiting[ticket] = waiter
        heapq.heappush(self._deadlines, (deadline, ticket))
        asked = self._by_host.get(host)
        if asked is not None:
            asked.append(ticket)
            return
        self._by_host[host] = [ticket]
        self._resolver.resolve(host, self._on_done)

    def arrived(self) -> list[tuple[Waiter, Finding]]:
        """The waiters whose names were answered since the last call."""
        answered: list[tuple[Waiter, Finding]] = []
        while self._arrived:
            host, resolution = self._arrived.popleft()
            finding = self._check(resolution)
            for ticket in self._by_host.pop(host, ()):
                waiter = self._waiting.pop(ticket, None)
                if waiter is not None:
                    answered.append((waiter, finding))
        return answered

    def expired(self, now: float) -> list[Waiter]:
        """The waiters whose deadline has passed."""
        expired: list[Waiter] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            waiter = self._waiting.pop(heapq.heappop(self._deadlines)[1], None)
            if waiter is not None:
                expired.append(waiter)
        return expired

    def next_deadline(self) -> float | None:
        """The earliest deadline of a waiter that still waits."""
        while self._deadlines and self._deadlines[0][1] not in self._waiting:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def drain(self) -> list[Waiter]:
        """Takes out all that wait. The lookups themselves go on, and their answers are kept."""
        waiters = list(self._waiting.values())
        self._waiting.clear()
        self._deadlines.clear()
        for tickets in self._by_host.values():
            tickets.clear()
        return waiters

    def _on_done(self, host: str, resolution: Resolution) -> None:
        self._arrived.append((host, resolution))
        self._wake()

    def _check(self, resolution: Resolution) -> Finding:
        return checked(resolution, self._allowed, self._is_proxied)
