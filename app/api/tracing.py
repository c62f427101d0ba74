"""The trace that a submission belongs to: the submitter's, continued by a span of ours where spans are made."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import cast

from flask import current_app, request

from app.spans import Spans
from app.traceparent import HEADER, sound


def submitting() -> AbstractContextManager[str | None]:
    """Around a submission. Gives the traceparent that its jobs are stored with, if any."""
    given = sound(request.headers.get(HEADER))
    spans = cast(Spans | None, current_app.extensions["spans"])
    return nullcontext(given) if spans is None else spans.submit(given)
