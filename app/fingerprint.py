"""Whether two requests with one idempotency key ask for the same."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def fingerprint(*parts: Any) -> bytes:
    """32 bytes that are equal for equal JSON values.

    Compared by value: the order of names and the spelling of strings and numbers do not count, so 1, 1.0 and 1e0 are one
    number; true and 1, "1" and 1, a list in another order, and a name that is there with null or missing differ.
    """
    text = json.dumps(_normal(parts), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).digest()


def _normal(value: Any) -> Any:
    """`value` with each whole decimal number as an integer, the only case in which equal numbers are written differently."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        return {name: _normal(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_normal(member) for member in value]
    return value
