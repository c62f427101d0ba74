"""/openapi.json, put together from the models that validate, and /docs, a page to try it."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from flask import Blueprint, Response, current_app, json
from flask_openapi3.models import APISpec
from flask_openapi3.models.components import Components
from flask_openapi3.models.info import Info
from flask_openapi3.models.security_scheme import SecurityScheme
from flask_openapi3.models.server import Server

from app.api.blueprint import BEARER
from app.api.blueprint import bp as api
from app.version import VERSION

OPENAPI_VERSION = "3.1.0"
DESCRIPTION = (
    "Punctual calls an address over HTTP with a payload: now, later, and on cron. Times are RFC 3339 with an offset and are "
    'answered in UTC. Errors are always `{"error": {"code", "message", "details"?}}`.'
)
# Nothing from outside, no inline script. Swagger UI draws its icons from data: addresses.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

bp = Blueprint(
    "docs",
    __name__,
    static_folder=str(files("flask_openapi3_swagger") / "templates" / "swagger"),
    static_url_path="/docs/assets",
)


@bp.get("/openapi.json")
def openapi() -> Response:
    return Response(json.dumps(document()), mimetype="application/json")


@bp.get("/docs")
def show() -> Response:
    # Not render_template: the page is for programs' authors, and asks nobody who is signed in.
    page = Response(current_app.jinja_env.get_template("docs/show.html").render(), mimetype="text/html")
    page.headers["Content-Security-Policy"] = PAGE_POLICY
    return page


@cache
def document() -> dict[str, Any]:
    """The OpenAPI document of every route of the API."""
    bearer = SecurityScheme(type="http", scheme="bearer", description="A key from `flask apikey create`: pk_…")
    spec = APISpec(
        openapi=OPENAPI_VERSION,
        info=Info(title="Punctual", version=VERSION, description=DESCRIPTION),
        servers=[Server(url="/")],
        tags=api.tags,
        paths=api.paths,
        components=Components(schemas=api.components_schemas, securitySchemes={BEARER: bearer}),
    )
    made: dict[str, Any] = spec.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
    for path in made["paths"].values():
        for operation in path.values():
            # The library joins the lines of a docstring for a page of its own.
            if "description" in operation:
                operation["description"] = operation["description"].replace("<br/>", " ").strip()
    return made
