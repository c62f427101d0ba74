"""Which `next` a sign-in may lead to: a path on this site and nothing else. Pure."""

from __future__ import annotations

from urllib.parse import urlsplit


def local_path(target: str | None, otherwise: str) -> str:
    """`target` when it can only be a path of this site, else `otherwise`.

    Browsers read a backslash as a slash and drop tabs and newlines, so that "/\\evil.example" and "/<tab>/evil.example" leave the
    site: nothing with either is a path.
    """
    if not target or len(target) > 2000 or not target.startswith("/") or target.startswith("//"):
        return otherwise
    if any(ord(character) <= 0x20 or ord(character) == 0x7F or character == "\\" for character in target):
        return otherwise
    try:
        parts = urlsplit(target)
    except ValueError:
        return otherwise
    return otherwise if parts.scheme or parts.netloc else target
