"""/v1/dead-letters: the jobs that exhausted their attempts, or whose receiver said stop."""

from __future__ import annotations

from flask import Response, g
from flask_openapi3.models.tag import Tag

from app.api.answers import page
from app.api.blueprint import bp
from app.api.job_shapes import summary
from app.api.reading import reads
from app.api.schemas_jobs import JobList, PageQuery
from app.current import punctual
from app.jobs import queries

TAG = Tag(name="Dead letters", description="Jobs in status dead.")


@bp.get("/dead-letters", tags=[TAG], responses={"200": JobList})
@reads
def list_dead_letters(query: PageQuery) -> Response:
    """List dead jobs, newest first

    `POST /v1/jobs/{id}/retry` runs one again.
    """
    rows = queries.list_dead_letters(punctual().engine, g.client_id, query.limit + 1, query.offset, query.cursor)
    return page([summary(row) for row in rows], query.limit)
