"""Where a call waits and what it goes by, from the fields of app.dashboard.callback_form: queue, priority and tags.

What is as it would be by default is left out.
"""

from __future__ import annotations

from typing import Any

from app.callback import DEFAULT_PRIORITY, DEFAULT_QUEUE, MAX_PRIORITY
from app.dashboard.callback_form import Stored, tags_text
from app.dashboard.field_texts import Fields, kept, whole


def read_queue(fields: Fields, before: Stored | None) -> dict[str, Any]:
    queue = kept(fields["queue"], None if before is None else before.queue)
    return {} if queue in ("", DEFAULT_QUEUE) else {"queue": queue}


def read_priority(fields: Fields, _before: Stored | None) -> dict[str, Any]:
    try:
        priority = whole(fields["priority"] or str(DEFAULT_PRIORITY))
    except ValueError:
        raise ValueError(f"Give a whole number from 0 to {MAX_PRIORITY}.") from None
    return {} if priority == DEFAULT_PRIORITY else {"priority": priority}


def read_tags(fields: Fields, before: Stored | None) -> dict[str, Any]:
    """Those of `before`, where the field shows them still: one of them may hold a comma."""
    text = fields["tags"].strip()
    if before is not None and text == tags_text(before.tags).strip():
        tags = list(before.tags)
    else:
        tags = [tag for part in text.split(",") if (tag := part.strip())]
    return {"tags": tags} if tags else {}
