"""The one way tests wait: ask again until it holds, or fail with what was last seen."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(ask: Callable[[], T], timeout: float = 10.0, every: float = 0.02) -> T:
    """The first true answer of `ask`. An AssertionError inside it means "not yet"; any other exception goes through.

    Fails after `timeout` seconds with the last answer, or the last assertion.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            answer = ask()
        except AssertionError:
            if time.monotonic() > deadline:
                raise
        else:
            if answer:
                return answer
            assert time.monotonic() < deadline, f"not within {timeout:g} s; the last answer was {answer!r}"
        time.sleep(every)
