"""Answers as JSON: payloads go out as the very text that came in, and lists say where they go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from flask import Response, json, request

from app.api.strict_json import Raw


def answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """`value` as JSON. A Raw in it is written as its text."""
    return Response(encode(value), status, dict(headers or {}), mimetype="application/json")


def no_content() -> Response:
    response = Response(status=204)
    del response.headers["Content-Type"]
    return response


def encode(value: Any) -> str:
    """JSON text. Only what can hold a Raw (objects, and lists of objects) is walked in Python."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{encode(member)}" for name, member in value.items()) + "}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[" + ",".join(map(encode, value)) + "]"
    return json.dumps(value)


def page(rows: Sequence[Mapping[str, Any]], limit: int, cursor: str = "id") -> Response:
    """A bare array of `limit` rows at most, of which the caller read one more: if it is there, `Link` says where to go on.

    `cursor` is the member that tells a row's place.
    """
    shown = list(map(dict, rows[:limit]))
    headers = {}
    if len(rows) > limit:
        # The cursor stands for everything before it, an offset among it.
        query = {name: value for name, value in request.args.items() if name not in ("offset", "cursor")}
        following = urlencode({**query, "cursor": shown[-1][cursor]})
        headers["Link"] = f'<{request.base_url}?{following}>; rel="next"'
    return answer(shown, headers=headers)
