"""How the id of a job or of a cron entry is found in an address."""

from __future__ import annotations

from flask import Flask
from werkzeug.routing import BaseConverter


class EntryIdConverter(BaseConverter):
    """Any one part of a path but the words that have addresses of their own, which would be malformed ids otherwise.

    So `PATCH /v1/cron-jobs/preview` is a 405, while `/v1/cron-jobs/x` stays a 400.
    """

    regex = r"(?!(?:preview|by-name)(?:/|$))[^/]+"
    part_isolating = True


class JobIdConverter(BaseConverter):
    """The same for jobs."""

    regex = r"(?!(?:batch|bulk)(?:/|$))[^/]+"
    part_isolating = True


def register(app: Flask) -> None:
    app.url_map.converters |= {"entry_id": EntryIdConverter, "job_id": JobIdConverter}
