"""The /metrics page: requests by rule, submissions, and the stores' own numbers, under gunicorn and without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from flask import Blueprint, Flask, Request, Response, current_app, request
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.values import ValueClass
from prometheus_flask_exporter import PrometheusMetrics

from app.current import punctual, settings
from app.errors import Unauthorized
from app.meters.pool import PoolCollector
from app.meters.token import WANTS_TOKEN, carries_token
from app.metrics import submissions
from app.metrics.collector import StoreCollector
from app.metrics.process_files import ProcessFiles

bp = Blueprint("metrics", __name__)

METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class RequestMetrics(PrometheusMetrics):  # type: ignore[misc]
    """The exporter's request metrics without its own page, and without `exporter_info`, a series for each process ever."""

    def info(self, *_: Any, **__: Any) -> None:
        return None


def register(app: Flask) -> None:
    """Counts requests and adds /metrics."""
    requests = CollectorRegistry()
    RequestMetrics(app, path=None, group_by=url_rule, buckets=BUCKETS, registry=requests)
    # Flask calls what was added last first: the method is bounded before the exporter makes a label of it.
    app.after_request(_bound_method)
    app.extensions["metrics"] = Sources(requests, StoreCollector(punctual))
    app.register_blueprint(bp)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where one application's numbers come from, beside the submissions that its process counts."""

    requests: CollectorRegistry
    stores: StoreCollector

    def together(self) -> CollectorRegistry:
        """All of them. Under gunicorn the counters of every process of this host, dead ones too, are in files."""
        registry = CollectorRegistry()
        registry.register(self.stores)
        registry.register(PoolCollector(punctual().engine))
        if ValueClass._multiprocess:
            registry.register(ProcessFiles(None))  # type: ignore[no-untyped-call]
        else:
            registry.register(self.requests)
            registry.register(submissions.registry)
        return registry


@bp.get("/metrics")
def metrics() -> Response:
    """Prometheus' text, or OpenMetrics where it is asked for. With METRICS_TOKEN set it takes that as a bearer token."""
    if not carries_token(request.headers.get("Authorization", ""), settings().metrics_token):
        raise Unauthorized(WANTS_TOKEN)
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    sources = cast(Sources, current_app.extensions["metrics"])
    return Response(encode(sources.together()), content_type=content_type)


def url_rule(asked: Request) -> str:
    """The label of a request: its rule, or one for all that matched none."""
    return asked.url_rule.rule if asked.url_rule else "none"


def _bound_method(response: Response) -> Response:
    """A stranger may send any method; all that HTTP does not know count as one."""
    if request.method not in METHODS:
        request.method = "OTHER"
    return response
