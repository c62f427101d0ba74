"""The ready stream, the scheduled set and the queues in front of the stream: the only package that talks to them."""

from app.stream.stream import HORIZON, MOST_READY, PIPELINE_LENGTH, PUT_BACK_AHEAD, Stream
from app.stream.tickets import (
    Due,
    Held,
    Promoted,
    Rate,
    Read,
    StreamId,
    Ticket,
    parse_id,
    to_score,
    token_of,
)

__all__ = [
    "HORIZON",
    "MOST_READY",
    "PIPELINE_LENGTH",
    "PUT_BACK_AHEAD",
    "Due",
    "Held",
    "Promoted",
    "Rate",
    "Read",
    "Stream",
    "StreamId",
    "Ticket",
    "parse_id",
    "to_score",
    "token_of",
]
