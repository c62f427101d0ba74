"""The Lua scripts that lie in app/lua."""

from __future__ import annotations

from importlib.resources import files


def lua(name: str) -> str:
    """The text of one of them."""
    return (files("app") / "lua" / f"{name}.lua").read_text(encoding="utf-8")
