"""How the name of a queue is found in an address."""

from __future__ import annotations

from flask import Flask
from werkzeug.routing import PathConverter

CONVERTER = "queue_name"


class QueueNameConverter(PathConverter):
    """All that is left of a path, slashes among it, but for what ends like the address of an action.

    So `PUT /v1/queues/mail/pause` is a 405, and makes no queue called `mail/pause`.
    """

    regex = r"(?!.*/(?:pause|resume|purge)$)[^/].*?"


def register(app: Flask) -> None:
    app.url_map.converters[CONVERTER] = QueueNameConverter
