"""The header `traceparent` of W3C Trace Context (https://www.w3.org/TR/trace-context/): which ones are sound. Pure."""

from __future__ import annotations

import re

HEADER = "traceparent"
_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


def sound(given: str | None) -> str | None:
    """The header as it is passed on, or None for one that is absent or broken, which is as if it were absent.

    Later versions may add to the end: what version 00 knows of them is passed on.
    """
    found = None if given is None else _FORM.fullmatch(given.strip())
    if found is None:
        return None
    version, trace_id, parent_id, flags, rest = found.groups()
    if version == "ff" or (version == "00" and rest) or not int(trace_id, 16) or not int(parent_id, 16):
        return None
    return f"00-{trace_id}-{parent_id}-{flags}"
