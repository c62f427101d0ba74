"""How many calls may be under way to one host at a time, and who waits for a place there."""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Generic, TypeVar

Item = TypeVar("Item")

# Beyond this many times the limit, what waits for one host is better off with another worker, or later.
WAITING_FACTOR = 4
# A host that lets nobody in for so long is slow: the worker reads on past what waits for it.
STANDS_AFTER_SECONDS = 0.1


class Place(Enum):
    """What became of an offer."""

    TAKEN = "taken"
    WAITING = "waiting"
    REFUSED = "refused"


class HostSlots(Generic[Item]):
    """Slots by host key (scheme, host and port). First come, first served within a host; hosts do not wait for others.

    Not thread-safe: the deliverer's thread owns it.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken: dict[str, int] = {}
        self._waiting: dict[str, deque[tuple[float, Item]]] = {}

    def offer(self, key: str, item: Item, now: float) -> Place:
        """TAKEN: the item has a slot, which must be released. REFUSED: too many wait, the item was not kept.

        `now` is in seconds of any clock, here and below the same one.
        """
        taken = self._taken.get(key, 0)
        if taken < self._limit:
            self._taken[key] = taken + 1
            return Place.TAKEN
        waiting = self._waiting.setdefault(key, deque())
        if len(waiting) >= WAITING_FACTOR * self._limit:
            return Place.REFUSED
        waiting.append((now, item))
        return Place.WAITING

    def release(self, key: str) -> Item | None:
        """Gives one slot of `key` back. The item returned, if any, has been given that slot."""
        waiting = self._waiting.get(key)
        if waiting:
            _, item = waiting.popleft()
            if not waiting:
                del self._waiting[key]
            return item
        taken = self._taken[key] - 1
        if taken:
            self._taken[key] = taken
        else:
            del self._taken[key]
        return None

    def wait_seconds(self, key: str, now: float) -> float:
        """For how long the first in line there has waited; 0 when nobody does."""
        waiting = self._waiting.get(key)
        return now - waiting[0][0] if waiting else 0.0

    def standing(self, now: float) -> int:
        """How many wait for hosts that are slow to let them in."""
        return sum(len(waiting) for waiting in self._waiting.values() if now - waiting[0][0] >= STANDS_AFTER_SECONDS)

    @property
    def is_anyone_waiting(self) -> bool:
        return bool(self._waiting)

    def drain(self) -> list[Item]:
        """Takes out all that wait; slots stay as they are."""
        items = [item for waiting in self._waiting.values() for _, item in waiting]
        self._waiting.clear()
        return items
