"""Lists of queues for people: everybody's, by name, with whose they are and what they are doing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Engine, select, tuple_

from app.database import autocommit
from app.models import Client, Queue
from app.queues import reading
from app.queues.reading import COLUMNS, QueueRow, View


@dataclass(frozen=True, slots=True)
class Listed:
    queue: QueueRow
    client_name: str
    view: View


def search(
    engine: Engine, *, q: str | None = None, client_id: int | None = None, after: int | None = None, most: int = 100
) -> Sequence[Listed]:
    """Queues by name, at most `most`. `q` is part of the name, `after` the id of the queue that they come after."""
    query = select(Client.name.label("client_name"), *COLUMNS).join(Client, Client.id == Queue.client_id)
    if q is not None:
        query = query.where(Queue.name.icontains(q, autoescape=True))
    if client_id is not None:
        query = query.where(Queue.client_id == client_id)
    if after is not None:
        last = select(Queue.name, Queue.id).where(Queue.id == after).subquery()
        query = query.where(tuple_(Queue.name, Queue.id) > select(last).scalar_subquery())
    with autocommit(engine) as conn:
        rows = [dict(row) for row in conn.execute(query.order_by(Queue.name, Queue.id).limit(most)).mappings()]
    names = [row.pop("client_name") for row in rows]
    queues = [QueueRow(**row) for row in rows]
    views = reading.views(engine, queues)
    return [Listed(queue, name, views[queue.id]) for queue, name in zip(queues, names, strict=True)]
