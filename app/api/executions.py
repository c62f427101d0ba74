"""/v1/jobs/{id}/executions: a job's attempts, and each with what it sent."""

from __future__ import annotations

from flask import Response, g

from app.api.answers import answer
from app.api.blueprint import bp, error_answers
from app.api.job_shapes import execution, request
from app.api.jobs import TAG, find, not_found
from app.api.reading import reads
from app.api.schemas import JobPath
from app.api.schemas_executions import ExecutionList, ExecutionPath, SentExecution
from app.current import punctual
from app.errors import NotFound
from app.jobs import queries, sent


@bp.get("/jobs/<job_id:job_id>/executions", tags=[TAG], responses={"200": ExecutionList, **error_answers(404)})
@reads
def list_executions(path: JobPath) -> Response:
    """List a job's executions, oldest first"""
    rows = queries.list_executions(punctual().engine, g.client_id, path.job_id)
    if rows is None:
        raise not_found(path.job_id)
    return answer([execution(row) for row in rows])


@bp.get("/jobs/<job_id:job_id>/executions/<number>", tags=[TAG], responses={"200": SentExecution, **error_answers(404)})
@reads
def get_execution(path: ExecutionPath) -> Response:
    """Get one execution of a job, with what was sent

    The request is that of this attempt, also when the job was changed afterwards. In the command, the values of headers that
    may be secrets are left out.
    """
    found = sent.attempt(punctual().engine, g.client_id, path.job_id, path.number)
    if found is None:
        find(path.job_id)
        raise NotFound(f"The job has no execution {path.number}.")
    return answer({**execution(found[0]), **request(found[1])})
