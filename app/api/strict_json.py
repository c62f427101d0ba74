"""JSON as this API takes it: RFC 8259 and nothing beside it, with the very text of chosen members kept.

The work is done by the standard library's C scanner. Only the members of the outermost object, and of those on the way
to a kept member, are walked in Python.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from json import JSONDecodeError, JSONDecoder
from json import dumps as dump_json
from math import isinf
from typing import Any

MAX_DEPTH = 64
MAX_INTEGER_DIGITS = 4300

# Python's own default, set here because the environment can lift it: reading an integer takes time by its length squared.
sys.set_int_max_str_digits(MAX_INTEGER_DIGITS)

Path = tuple[str, ...]

_SPACE = re.compile(r"[ \t\n\r]*")
# A string that is not closed runs to the end, so that no text is scanned twice.
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = [0] * 256
for _opening, _closing in ("[]", "{}"):
    _STEPS[ord(_opening)], _STEPS[ord(_closing)] = 1, -1
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


class NotStrictJson(ValueError):
    """A text that is not taken. The message is a sentence for whoever sent it."""


@dataclass(frozen=True, slots=True)
class Raw:
    """A member kept as it was sent: its `text`, and the `value` that it reads as."""

    text: str
    value: Any


def parse(body: bytes, keep: Iterable[Path] = ()) -> Any:
    """The value of `body`, in which each member named by a path of `keep` is a Raw.

    Raises NotStrictJson, and nothing else: for what is not UTF-8 or not JSON, a name that comes twice in one object, NaN,
    Infinity, a decimal number that no double can hold, an integer of more than 4,300 digits, half of a surrogate pair
    alone, and more than 64 levels of arrays and objects.
    """
    text = _decode(body)
    _check_depth(text)
    try:
        value, end = _read(text, _skip(text, 0), tuple(keep))
        if (end := _skip(text, end)) != len(text):
            raise JSONDecodeError("Text after the end of the value", text, end)
    except JSONDecodeError as error:
        raise NotStrictJson(
            f"The body is not JSON: {error.msg}, at line {error.lineno}, column {error.colno}."
        ) from None
    if _SURROGATE_ESCAPE.search(text):
        _check_surrogates(value)
    return value


def _decode(body: bytes) -> str:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotStrictJson(f"The body is not UTF-8: see the byte at {error.start}.") from None
    if not text.strip(" \t\n\r"):
        raise NotStrictJson("The body is empty: send a JSON object.")
    if text.startswith("\ufeff"):
        raise NotStrictJson("The body begins with a byte order mark: send the JSON without one.")
    return text


def _check_depth(text: str) -> None:
    """Counts brackets outside strings, before anything recurses over them."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    brackets = _STRING.sub("", text).encode().translate(None, _NOT_BRACKETS)
    if max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > MAX_DEPTH:
        raise NotStrictJson(f"The body is nested too deep: at most {MAX_DEPTH} levels of arrays and objects are taken.")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _doubled(name)
            seen.add(name)
    return members


def _doubled(name: str) -> NotStrictJson:
    return NotStrictJson(f"The name {_quote(name)} comes twice in one object: send it once.")


def _finite(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise NotStrictJson(f"The number {_quote(text)} is too large: no double can hold it.")
    return number


def _constant(name: str) -> Any:
    raise NotStrictJson(f"{name} is not JSON: send null or a string.")


_DECODER = JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_constant)


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _read(text: str, at: int, keep: tuple[Path, ...]) -> tuple[Any, int]:
    """The value that begins at `at`, and where it ends."""
    if keep and text.startswith("{", at):
        return _read_object(text, at, keep)
    try:
        return _DECODER.raw_decode(text, at)
    except (JSONDecodeError, NotStrictJson):
        raise
    except ValueError:
        # int() refuses; there is no other way for it to fail on digits.
        raise NotStrictJson(f"An integer has more than {MAX_INTEGER_DIGITS:,} digits: send it as a string.") from None


def _read_object(text: str, at: int, keep: tuple[Path, ...]) -> tuple[dict[str, Any], int]:
    members: dict[str, Any] = {}
    at = _skip(text, at + 1)
    if text.startswith("}", at):
        return members, at + 1
    while True:
        if not text.startswith('"', at):
            raise JSONDecodeError("A name in double quotes is missing", text, at)
        name, at = _DECODER.raw_decode(text, at)
        if name in members:
            raise _doubled(name)
        at = _skip(text, at)
        if not text.startswith(":", at):
            raise JSONDecodeError("A colon is missing", text, at)
        start = _skip(text, at + 1)
        value, end = _read(text, start, tuple(path[1:] for path in keep if path[0] == name and len(path) > 1))
        members[name] = Raw(text[start:end], value) if (name,) in keep else value
        at = _skip(text, end)
        if text.startswith("}", at):
            return members, at + 1
        if not text.startswith(",", at):
            raise JSONDecodeError("A comma or a closing brace is missing", text, at)
        at = _skip(text, at + 1)


def _check_surrogates(value: Any) -> None:
    """Writing the strings as UTF-8 fails on a surrogate alone; pairs have become one character by now."""
    try:
        dump_json(value, ensure_ascii=False, default=lambda raw: raw.value).encode("utf-8")
    except UnicodeEncodeError:
        raise NotStrictJson(
            "A string holds half of a surrogate pair (\\ud800 to \\udfff): send the whole pair, or the character itself."
        ) from None


def _quote(text: str) -> str:
    """`text` as it may stand in a message: short, and with nothing in it that cannot be encoded."""
    short = text if len(text) <= 40 else f"{text[:40]}…"
    return f'"{short.encode("utf-8", "backslashreplace").decode()}"'
