"""From a request to the models a view asks for: the body's bytes, its JSON, and refusals that name the field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar, cast, get_type_hints

from flask import Response, request
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from app.api.schemas import ANY_BUT_NUL, QueryModel
from app.api.strict_json import NotStrictJson, Path, parse
from app.current import settings
from app.errors import InvalidRequest, TooLarge, UnsupportedMediaType

Model = TypeVar("Model", bound=BaseModel)
MAX_DETAILS = 20
# Members whose very text is kept, by the path to them.
KEPT: tuple[Path, ...] = (("payload",), ("job_template", "payload"))
_UTF8 = ("utf-8", "utf8")
_WORDS = {
    "extra_forbidden": "is not known here: leave it out, or check its spelling",
    "missing": "is required",
}


def reads(view: Callable[..., Response]) -> Callable[..., Response]:
    """Gives a view its arguments `path`, `header`, `query` and `body`, each of the model it is annotated with.

    The library that documents the routes reads the same annotations; the mark tells it to leave the reading to us.
    """
    hints = get_type_hints(view)
    readers = {name: _READERS[name] for name in hints if name in _READERS}

    @wraps(view)
    def reading(**path: str) -> Response:
        return view(**{name: read(hints[name], path) for name, read in readers.items()})

    reading.__delay_validate_request__ = True  # type: ignore[attr-defined]
    return reading


def _read_body(model: type[BaseModel], _path: dict[str, str]) -> BaseModel:
    own = getattr(model, "from_request", None)
    if own is not None:
        return cast(BaseModel, own())
    if _may_be_left_out(model) and not request.content_length and "Transfer-Encoding" not in request.headers:
        return model()
    _check_content_type()
    try:
        value = parse(body_bytes(settings().max_body_bytes), KEPT)
    except NotStrictJson as error:
        raise InvalidRequest(str(error)) from None
    if not isinstance(value, dict):
        raise InvalidRequest("The body must be a JSON object.")
    return validated(model, value)


def _may_be_left_out(model: type[BaseModel]) -> bool:
    """As the document says it: `openapi_extra` is where the library that documents the routes looks."""
    extra: Any = model.model_config.get("openapi_extra", {})
    return not extra.get("required", True)


def _check_content_type() -> None:
    charset = request.mimetype_params.get("charset", "utf-8").lower()
    if request.mimetype != "application/json" or charset not in _UTF8:
        raise UnsupportedMediaType("Send the body as UTF-8 with `Content-Type: application/json`.")
    if request.headers.get("Content-Encoding", "identity").lower() not in ("", "identity"):
        raise UnsupportedMediaType("Send the body as it is, without Content-Encoding.")


def body_bytes(most: int) -> bytes:
    """The body, of at most `most` bytes. Raises TooLarge.

    A chunked body has no length to go by, and werkzeug cuts it at its limit in silence: so it may read one byte more.
    """
    if (request.content_length or 0) > most:
        raise _too_large(most)
    request.max_content_length = most + 1
    body = request.get_data(cache=False)
    if len(body) > most:
        raise _too_large(most)
    return body


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"The body is larger than {most:,} bytes, the most that is taken.")


def _read_path(model: type[BaseModel], path: dict[str, str]) -> BaseModel:
    return validated(model, path)


def _read_query(model: type[QueryModel], _path: dict[str, str]) -> BaseModel:
    values = request.args.to_dict(flat=False)
    for name, given in values.items():
        if len(given) > 1 and name not in model.repeatable:
            raise _refusal([(_shown(name), "is given more than once")])
    return validated(model, {name: ",".join(given) for name, given in values.items()})


def _read_header(model: type[BaseModel], _path: dict[str, str]) -> BaseModel:
    aliases = (field.alias or name for name, field in model.model_fields.items())
    return validated(model, {alias: _header(alias) for alias in aliases if alias in request.headers})


def _header(name: str) -> str:
    """WSGI gives headers as Latin-1; programs send UTF-8."""
    try:
        return request.headers[name].encode("latin-1").decode("utf-8")
    except UnicodeError:
        raise _refusal([(name, "must be UTF-8")]) from None


_READERS: dict[str, Callable[[Any, dict[str, str]], BaseModel]] = {
    "path": _read_path,
    "header": _read_header,
    "query": _read_query,
    "body": _read_body,
}


def validated(model: type[Model], values: dict[str, Any]) -> Model:
    """The model of these values. Raises InvalidRequest, which names the fields at fault."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise _refusal(map(_row, error.errors(include_url=False, include_input=False)[:MAX_DETAILS])) from None


def _row(error: ErrorDetails) -> tuple[str, str]:
    """The field at fault, and what to do about it."""
    field = ".".join(_shown(str(part)) for part in error["loc"])
    message = _WORDS.get(error["type"])
    if message is None:
        message = error["msg"].removeprefix("Value error, ")
        message = re.sub(r"^(Input|String|Value) should ", "must ", message)
        if error["type"] == "string_pattern_mismatch":
            is_long = error.get("ctx", {}).get("pattern") == ANY_BUT_NUL
            message = "must not hold NUL" if is_long else "must not hold control characters or line separators"
    return field, message


def _shown(name: str) -> str:
    return name if len(name) <= 64 else f"{name[:64]}…"


def _refusal(rows: Iterable[tuple[str, str]]) -> InvalidRequest:
    told = list(rows)
    details = [{"field": field or "body", "message": message} for field, message in told]
    named = " ".join(filter(None, told[0]))
    more = f" (and {len(details) - 1} more, see details)" if len(details) > 1 else ""
    return InvalidRequest(f"{named}.{more}", details=details)
