"""Named places at which a process kills itself, as a test of faults asks it to by CRASH_POINTS. Nowhere else has it any effect.

`CRASH_POINTS=claimed:0.01,recorded:0.02` gives the share of the passages of each place that end the process, as by kill -9.
"""

from __future__ import annotations

import os
import random
import signal

# Where a crash is most awkward: between two stores, or between a store and the world.
POINTS = ("submitted", "claimed", "answered", "recorded", "before_acknowledge", "fired")

_shares: dict[str, float] = {}


def arm(shares: dict[str, float]) -> None:
    """Called once, when a process starts, with what app.config has read."""
    _shares.update(shares)


def reach(point: str) -> None:
    """The process comes past `point`; it may be its last."""
    share = _shares.get(point)
    if share is not None and random.random() < share:
        os.kill(os.getpid(), signal.SIGKILL)
