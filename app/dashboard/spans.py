"""Spans of time as people type and read them: 10 s, 15 min, 2 h, 30 d. Pure."""

from __future__ import annotations

import re

_SIZES = {"d": 86_400, "h": 3600, "min": 60, "s": 1}
_UNITS = {"m": "min", "minutes": "min", "minute": "min", "sec": "s", "seconds": "s", "second": "s"}
_UNITS |= {"hours": "h", "hour": "h", "days": "d", "day": "d", **{unit: unit for unit in _SIZES}}
_NUMBER = r"[0-9]{1,20}(?:\.[0-9]{1,20})?(?:e-?[0-9]{1,2})?"
_SPAN = re.compile(rf"({_NUMBER}) *([a-z]*)", re.ASCII)
_SEPARATOR = re.compile(r"[,;\n]")
EXAMPLE = "such as 10 s, 15 min or 2 h"


def shown(seconds: float) -> str:
    """In the largest unit that leaves nothing over, so that `read` finds the very number again."""
    unit, size = next((unit, size) for unit, size in _SIZES.items() if size == 1 or (seconds and seconds % size == 0))
    return f"{number(seconds / size)} {unit}"


def read(text: str) -> float:
    """Seconds; a number alone is seconds too. Raises ValueError with a sentence for a person."""
    found = _SPAN.fullmatch(text.strip().lower().replace(",", "."))
    if found is None or (found[2] or "s") not in _UNITS:
        raise ValueError(f"Give a span of time, {EXAMPLE}.")
    return float(found[1]) * _SIZES[_UNITS[found[2] or "s"]]


def read_list(text: str) -> list[float]:
    """The same for some of them with commas between. Raises ValueError."""
    try:
        return [read(part) for part in _SEPARATOR.split(text.strip().strip(",;"))]
    except ValueError:
        raise ValueError("Give each wait, with commas between them, such as 5 s, 1 min, 1 h.") from None


def number(value: float) -> str:
    """2, 1.5, 1e-07: as short as it reads back."""
    return f"{value:.0f}" if float(value).is_integer() else repr(float(value))


def read_number(text: str) -> float:
    """Raises ValueError with a sentence for a person."""
    text = text.strip().lower().replace(",", ".")
    if re.fullmatch(_NUMBER, text, re.ASCII) is None:
        raise ValueError("Give a number, such as 2 or 1.5.")
    return float(text)
