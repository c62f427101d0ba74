"""How large a form may be that holds a payload."""

from __future__ import annotations

from typing import Any

from flask import request

from app.current import settings

# A form may repeat the payload in a wider encoding, and holds more than the payload.
SIZE_FACTOR = 4
FORMS = ("dashboard.jobs.new", "dashboard.jobs.edit", "dashboard.cron.new", "dashboard.cron.edit")


def make_room(endpoint: str | None, _values: dict[str, Any] | None) -> None:
    """Lets a form be larger than a program's request may be, before anything reads it."""
    if endpoint in FORMS:
        request.max_content_length = request.max_form_memory_size = SIZE_FACTOR * settings().max_body_bytes
