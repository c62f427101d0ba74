"""Ids made by us before an INSERT, so that a statement can be repeated (C7)."""

from __future__ import annotations

import os
import time
from uuid import UUID


def uuid7() -> UUID:
    """A UUIDv7 (RFC 9562 section 5.7): 48 bits of Unix milliseconds, then random. The table grows at one end.

    The host's clock only orders ids roughly; nothing is decided by it (C1).
    """
    return uuid7_of(time.time_ns() // 1_000_000, os.urandom(10))


def uuid7_of(milliseconds: int, tail: bytes) -> UUID:
    """A UUIDv7 of this Unix time with these ten bytes after it."""
    value = int.from_bytes(tail, "big") | (milliseconds & (1 << 48) - 1) << 80
    value = value & ~(0xF << 76) | 0x7 << 76
    return UUID(int=value & ~(0x3 << 62) | 0x2 << 62)
