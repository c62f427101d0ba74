"""Headers as people type them, `Name: value` on a line each, with the values that may be secrets hidden. Pure."""

from __future__ import annotations

from app.callback import Headers, check_headers
from app.request_text import may_be_secret

# Not to be sent by mistake: no header can carry these dots.
HIDDEN = "••••••"


def shown(headers: Headers) -> str:
    """One line a header."""
    return "\n".join(_line(pair) for pair in headers)


def masked(headers: Headers) -> Headers:
    """The headers as anybody may see them."""
    return tuple((name, HIDDEN if _is_hidden((name, value)) else value) for name, value in headers)


def read(text: str, before: Headers = (), keeps_hidden: bool = True) -> Headers:
    """The headers of the lines. A line that is as `shown` wrote it for `before` keeps its value to the last bit.

    Hidden ones only if `keeps_hidden`. Raises ValueError with a sentence for a person.
    """
    known = {_line(pair).strip(): pair for pair in before if keeps_hidden or not _is_hidden(pair)}
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            found.append(known.get(line.strip()) or _read(line, number))
    try:
        check_headers(found)
    except ValueError as error:
        raise ValueError(f"They {error}.") from None
    return tuple(found)


def _is_hidden(pair: tuple[str, str]) -> bool:
    return pair[1] != "" and may_be_secret(pair[0])


def _line(pair: tuple[str, str]) -> str:
    name, value = masked((pair,))[0]
    return f"{name}: {value}"


def _read(line: str, number: int) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon:
        raise ValueError(f"Line {number} has no colon: write Name: value.")
    if value.strip() == HIDDEN:
        raise ValueError(
            f"Line {number} has a hidden value, which is kept only in its place and for its host: write the value itself."
        )
    return name.strip(), value.strip()
