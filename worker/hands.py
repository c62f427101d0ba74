"""The claims this worker holds, each under the identity it was claimed by, from claim to record."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from uuid import UUID

from app.attempts import Claim

Fence = tuple[UUID, int, int]


class Hands:
    """A bounded set of held claims. The consumer reads no more than there are free places.

    What waits for a slow host takes no place meanwhile, so that others are read past it. Its number is bounded all the same: a
    host must have all its calls under way before anything waits for it, and takes so many times their number at most.
    """

    def __init__(self, places: int) -> None:
        self.places = places
        self._held: dict[Fence, tuple[Claim, UUID]] = {}
        self._standing = 0
        self._freed = threading.Condition()

    def note_standing(self, count: int) -> None:
        """How many of the held claims wait for hosts that are slow to let them in."""
        with self._freed:
            self._standing = count
            self._freed.notify_all()

    def take(self, claims: Iterable[Claim], worker: UUID) -> None:
        with self._freed:
            for claim in claims:
                self._held[claim.fence] = (claim, worker)

    def release(self, claims: Iterable[Claim]) -> None:
        """Gives places back: the attempts are recorded, handed back or dropped."""
        with self._freed:
            for claim in claims:
                self._held.pop(claim.fence, None)
            self._freed.notify_all()

    def worker_of(self, claim: Claim) -> UUID | None:
        """The identity a held claim was made under; None when it is not held."""
        with self._freed:
            held = self._held.get(claim.fence)
            return None if held is None else held[1]

    def held_by(self, worker: UUID) -> list[UUID]:
        """Ids of the jobs held under one identity."""
        with self._freed:
            return [claim.job_id for claim, holder in self._held.values() if holder == worker]

    def __len__(self) -> int:
        return len(self._held)

    def wait_for_places(self, wanted: int, seconds: float) -> int:
        """Free places, once there are `wanted` or `seconds` have passed: small batches cost more than a short wait."""
        with self._freed:
            self._freed.wait_for(lambda: self._free() >= wanted, seconds)
            return self._free()

    def _free(self) -> int:
        return self.places - max(0, len(self._held) - self._standing)
