"""Every Redis key: its name, type, who writes and reads it, how long it lives, and how it is rebuilt."""

from __future__ import annotations

from dataclasses import dataclass

GROUP = "workers"
BAD_LIFETIME_SECONDS = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Keys:
    """Key names under one prefix. The braces are a Redis Cluster hash tag: one slot for what one script touches."""

    prefix: str

    @property
    def base(self) -> str:
        """What the names below `{prefix}` begin with; scripts put their names together from it."""
        return f"{{{self.prefix}}}:"

    @property
    def ready(self) -> str:
        """Stream with group `workers`: jobs due now. Written by submit, promote, retry, rescue; read by workers.

        Lives on; entries are acknowledged and deleted when claimed. Rebuilt from due rows (C14, C16).
        """
        return f"{self.base}ready"

    @property
    def scheduled(self) -> str:
        """Sorted set by run_at in ms, rounded up: jobs due within the horizon. Written by submit, load, retry; read by promote.

        Lives on; rebuilt from scheduled rows every few seconds (C13).
        """
        return f"{self.base}scheduled"

    @property
    def epoch(self) -> str:
        """String `ready:<token>` or `rebuilding:<token>`, by the leader only. Absent: Redis lost its data (C14). Lives on."""
        return f"{self.base}epoch"

    def waiting(self, token: str) -> str:
        """Sorted set of one queue's due jobs that wait for its turn, by priority and time. `token` is `<client>:<queue>`.

        Written by add, promote, finish; read by admit. Lives on; rebuilt from due rows (C14, C16).
        """
        return f"{self.base}waiting:{token}"

    def slots(self, token: str) -> str:
        """Sorted set of job ids by when they were admitted, in ms. A slot is given up when its job is claimed; in a limited
        queue, when its attempt has ended. Lives on; rebuilt from running rows, swept every few seconds."""
        return f"{self.base}slots:{token}"

    @property
    def turns(self) -> str:
        """Sorted set of clients with queues that take turns, by turns taken. Beside it `ring:<client>`, the same of its queues.

        Written and read by every script that admits. Lives on; rebuilt with what waits.
        """
        return f"{self.base}turns"

    def ring(self, client_id: int) -> str:
        return f"{self.base}ring:{client_id}"

    @property
    def asleep(self) -> str:
        """Sorted set of tokens of queues that are full, paused or out of rate, by when to look again, in ms. May be forgotten."""
        return f"{self.base}asleep"

    @property
    def limits(self) -> str:
        """Hash token -> `<paused>:<concurrency>:<rated>[:<rate>]` of limited queues, as PostgreSQL has them. Written by whoever
        changes a queue, and once a second by the leader. Lives on."""
        return f"{self.base}limits"

    @property
    def rates(self) -> str:
        """Hash token -> `<jobs that may start now>:<ms when more may>`, as the last claim found it. May be forgotten."""
        return f"{self.base}rates"

    @property
    def bad(self) -> str:
        """List of what could not be parsed, newest first, for people to read. Lives 7 days after the last addition."""
        return f"{self.base}bad"

    def rate(self, client_id: int) -> str:
        """Sliding window of one client's quota. Lives one window; may be forgotten."""
        return f"{{{self.prefix}:rate:{client_id}}}"

    def refusals(self, address: str) -> str:
        """Sliding window of failed keys from one address. Lives one window; may be forgotten."""
        return f"{{{self.prefix}:refused:{address}}}"

    def sign_in(self, name: str, address: str) -> str:
        """Failed sign-ins of one name from one address. Lives one window; may be forgotten."""
        return f"{{{self.prefix}:sign-in:{name}:{address}}}"
