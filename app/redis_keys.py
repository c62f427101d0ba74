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
    def ready(self) -> str:
        """Stream with group `workers`: jobs due now. Written by submit, promote, retry, rescue; read by workers.

        Lives on; entries are acknowledged and deleted when claimed. Rebuilt from due rows (C14, C16).
        """
        return f"{{{self.prefix}}}:ready"

    @property
    def scheduled(self) -> str:
        """Sorted set by run_at in ms, rounded up: jobs due within the horizon. Written by submit, load, retry; read by promote.

        Lives on; rebuilt from scheduled rows every few seconds (C13).
        """
        return f"{{{self.prefix}}}:scheduled"

    @property
    def epoch(self) -> str:
        """String `ready:<token>` or `rebuilding:<token>`, by the leader only. Absent: Redis lost its data (C14). Lives on."""
        return f"{{{self.prefix}}}:epoch"

    @property
    def bad(self) -> str:
        """List of what could not be parsed, newest first, for people to read. Lives 7 days after the last addition."""
        return f"{{{self.prefix}}}:bad"

    def rate(self, client_id: int) -> str:
        """Sliding window of one client's quota. Lives one window; may be forgotten."""
        return f"{{{self.prefix}:rate:{client_id}}}"

    def refusals(self, address: str) -> str:
        """Sliding window of failed keys from one address. Lives one window; may be forgotten."""
        return f"{{{self.prefix}:refused:{address}}}"

    def sign_in(self, name: str, address: str) -> str:
        """Failed sign-ins of one name from one address. Lives one window; may be forgotten."""
        return f"{{{self.prefix}:sign-in:{name}:{address}}}"
