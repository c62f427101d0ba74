"""Calls of the API as a client's program makes them, for the tests."""

from __future__ import annotations

import json
from typing import Any

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

HOOK = "http://127.0.0.1:9/hook"


class ApiCalls:
    """One client's key on Flask's test client."""

    def __init__(self, client: FlaskClient, key: str) -> None:
        self._client = client
        self._headers = {"Authorization": f"Bearer {key}"}

    def call(self, method: str, path: str, **options: Any) -> TestResponse:
        headers = {**self._headers, **options.pop("headers", {})}
        return self._client.open(path, method=method, headers=headers, **options)

    def get(self, path: str, **options: Any) -> TestResponse:
        return self.call("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> TestResponse:
        return self.call("POST", path, json=body, **options)

    def patch(self, path: str, body: Any) -> TestResponse:
        return self.call("PATCH", path, json=body)

    def delete(self, path: str) -> TestResponse:
        return self.call("DELETE", path)

    def submit(self, **fields: Any) -> TestResponse:
        return self.post("/v1/jobs", {"type": "t", "payload": {}, "callback_url": HOOK, **fields})

    def send(
        self, body: str | bytes, content_type: str | None = "application/json", path: str = "/v1/jobs"
    ) -> TestResponse:
        return self.call("POST", path, data=body, content_type=content_type)

    def submitted(self, **fields: Any) -> str:
        """The id of a job just accepted."""
        answer = self.submit(**fields)
        assert answer.status_code == 201, answer.get_data(as_text=True)
        job_id: str = answer.get_json()["id"]
        return job_id


def error(answer: TestResponse, status: int) -> dict[str, Any]:
    """The error of an answer, once its status and its shape have been looked at."""
    text = answer.get_data(as_text=True)
    assert answer.status_code == status, text
    assert answer.mimetype == "application/json"
    body = json.loads(text)
    assert set(body) == {"error"}
    told: dict[str, Any] = body["error"]
    assert {"code", "message"} <= set(told) <= {"code", "message", "details"}
    assert isinstance(told["code"], str) and told["message"]
    return told
