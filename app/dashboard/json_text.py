"""JSON laid out for reading without reading its values: each number, string and name keeps its very characters. Pure."""

from __future__ import annotations

import re

INDENT = "  "
# RFC 8259's tokens; a string that is not closed runs to the end, and anything else is a run of what it is.
_TOKENS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_CLOSES = {"{": "}", "[": "]"}


def pretty(text: str) -> str:
    """`text`, which is JSON, with a line for each member. What is not JSON comes out whole as well, laid out oddly.

    9007199254740993 stays what it is, and so do 1.10, 1e400 and \\u0041: nothing goes through a double.
    """
    tokens = _TOKENS.findall(text)
    parts: list[str] = []
    depth, at = 0, 0
    while at < len(tokens):
        token = tokens[at]
        following = tokens[at + 1] if at + 1 < len(tokens) else ""
        at += 1
        if token in _CLOSES and following == _CLOSES[token]:
            parts.append(token + following)
            at += 1
        elif token in _CLOSES:
            depth += 1
            parts += [token, _line(depth)]
        elif token in ("}", "]"):
            depth = max(0, depth - 1)
            parts += [_line(depth), token]
        elif token == ",":
            parts += [token, _line(depth)]
        else:
            parts.append(": " if token == ":" else token)
    return "".join(parts)


def _line(depth: int) -> str:
    return "\n" + INDENT * depth
