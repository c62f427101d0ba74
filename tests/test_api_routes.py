"""Every route of the API: closed without a key, in the contract, and with its errors in one shape."""

from __future__ import annotations

import re

import redis
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import create_engine

from app.current import punctual
from app.stores import Stores
from tests.api_calls import ApiCalls, error

# All that anybody may ask, beside the dashboard, whose routes name a role each (tests/test_dashboard_roles.py).
OPEN = {
    "/healthz",
    "/livez",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/docs",
    "/docs/assets/<path:filename>",
    "/static/<path:filename>",
    "/bootstrap/static/<path:filename>",
}
CHANGING = {"GET", "POST", "PUT", "PATCH", "DELETE"}


def api_routes(app: Flask) -> list[tuple[str, str]]:
    """(method, rule) of every route below /v1."""
    rules = [rule for rule in app.url_map.iter_rules() if rule.rule.startswith("/v1")]
    return [(method, rule.rule) for rule in rules for method in sorted((rule.methods or set()) & CHANGING)]


def test_every_route_is_open_on_purpose_or_asks_who_calls(app: Flask) -> None:
    others = {
        rule.rule
        for rule in app.url_map.iter_rules()
        if not rule.rule.startswith("/v1") and not rule.endpoint.startswith("dashboard.")
    }

    assert others <= OPEN
    assert len(api_routes(app)) >= 24


def test_every_route_of_the_api_is_closed_without_a_key(
    app: Flask, client: FlaskClient, redis_client: redis.Redis
) -> None:
    for method, rule in api_routes(app):
        # After twenty bad keys within a minute the answer is another.
        redis_client.flushdb()
        path = re.sub(r"<[^>]+>", "1", rule)
        for headers in ({}, {"Authorization": "Bearer pk_unknown"}, {"Authorization": "Basic cGs6"}):
            answer = client.open(path, method=method, headers=headers, data=b"{", content_type="text/plain")
            assert error(answer, 401)["code"] == "unauthorized", f"{method} {rule}"
            assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_every_route_is_in_the_contract_and_nothing_else(app: Flask, client: FlaskClient) -> None:
    document = client.get("/openapi.json").get_json()
    written = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}

    assert document["openapi"].startswith("3.1.")
    assert written == {(method, re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule)) for method, rule in api_routes(app)}
    names = [operation["operationId"] for path in document["paths"].values() for operation in path.values()]
    assert len(set(names)) == len(names)


def test_the_page_to_try_it_brings_all_it_needs(client: FlaskClient) -> None:
    answer = client.get("/docs")
    page = answer.get_data(as_text=True)

    assert answer.status_code == 200
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "<script>" not in page
    assert "<style" not in page
    addresses = re.findall(r'(?:src|href|data-document)="([^"]+)"', page)
    assert len(addresses) == 5
    for address in addresses:
        assert address.startswith("/"), "nothing is fetched from outside"
        found = client.get(address)
        assert found.status_code == 200, address
        found.close()


def test_unknown_addresses_and_methods_have_the_shape_of_errors(client: FlaskClient, api_key: str) -> None:
    api = ApiCalls(client, api_key)
    for path in ("/v1", "/v1/", "/v1/nothing", "/v1/jobs/", "/v1/jobs/a/b/c", "/v1/%00"):
        assert error(api.get(path), 404)["code"] == "not_found"
    for method, path, allowed in (("PUT", "/v1/jobs", {"GET", "POST"}), ("PATCH", "/v1/cron-jobs/preview", {"POST"})):
        answer = api.call(method, path)
        assert error(answer, 405)["code"] == "method_not_allowed"
        assert set(answer.headers["Allow"].split(", ")) - {"HEAD", "OPTIONS"} == allowed


def test_without_the_database_every_route_is_a_503(app: Flask, client: FlaskClient, api_key: str) -> None:
    stores = punctual()
    nowhere = create_engine("postgresql+psycopg://nobody@127.0.0.1:1/none", connect_args={"connect_timeout": 1})
    app.extensions["punctual"] = Stores(nowhere, stores.stream, stores.bypass)
    try:
        for method, rule in api_routes(app):
            answer = ApiCalls(client, api_key).call(method, re.sub(r"<[^>]+>", "1", rule))
            assert error(answer, 503)["code"] == "unavailable", f"{method} {rule}"
            assert int(answer.headers["Retry-After"]) >= 1
    finally:
        app.extensions["punctual"] = stores
        nowhere.dispose()


def test_what_goes_wrong_unforeseen_is_a_500_without_details(app: Flask, client: FlaskClient, api_key: str) -> None:
    view = app.view_functions["api.list_dead_letters"]

    def broken() -> None:
        raise LookupError("a secret of the inside")

    app.view_functions["api.list_dead_letters"] = broken  # type: ignore[assignment]
    try:
        told = error(ApiCalls(client, api_key).get("/v1/dead-letters"), 500)
    finally:
        app.view_functions["api.list_dead_letters"] = view

    assert told["code"] == "internal_error"
    assert "secret" not in told["message"]
