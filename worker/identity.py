"""Under which name a worker claims, and whether it may still send (C17)."""

from __future__ import annotations

import threading
from uuid import UUID

from app.clock import boottime
from app.ids import uuid7
from app.processes import SEND_WITHIN_SECONDS


class Identity:
    """Made anew at each start and after being declared lost. `lock` orders a renewal against the hand-over of claims."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.id: UUID = uuid7()
        self._last_good_beat: float | None = None

    def beaten(self, sent_at: float) -> None:
        """A beat went through. It counts from when it was sent (boottime): the answer may have been long on its way."""
        self._last_good_beat = sent_at

    def renew(self) -> UUID:
        """A new name; nothing may be sent under it before its first beat."""
        with self.lock:
            self.id = uuid7()
            self._last_good_beat = None
            return self.id

    def may_send(self) -> bool:
        """Whether the last good beat is recent enough that nobody can have declared this worker lost."""
        last = self._last_good_beat
        return last is not None and boottime() - last < SEND_WITHIN_SECONDS
