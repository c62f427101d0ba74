"""Labels that strangers choose, bounded: the first names that come have series of their own, all later ones share one."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock

Pair = tuple[str, str]

MOST_PAIRS = 50
OTHER = "other"


class BoundedPairs:
    """Pairs of client and queue. At most `most` are told apart by one process."""

    def __init__(self, known: Iterable[Pair] = (), most: int = MOST_PAIRS) -> None:
        self._most = most
        self._lock = Lock()
        self._known = set(known)

    def label(self, client: str, queue: str) -> Pair:
        """The pair itself, or ("other", "other")."""
        pair = (client, queue)
        if pair in self._known:
            return pair
        with self._lock:
            if len(self._known) >= self._most:
                return (OTHER, OTHER)
            self._known.add(pair)
            return pair
