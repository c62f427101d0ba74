"""Bodies that are refused before their fields are looked at: not strict JSON, another content type, too long."""

from __future__ import annotations

import pytest
import requests
from flask.testing import FlaskClient

from tests.api_calls import ApiCalls, error
from tests.processes import Processes


@pytest.fixture
def api(client: FlaskClient, api_key: str) -> ApiCalls:
    return ApiCalls(client, api_key)


WHOLE = '{"type": "t", "payload": %s, "callback_url": "http://127.0.0.1:9/hook"}'


@pytest.mark.parametrize(
    "body",
    [
        "null", "[]", "{", "", '{"a":1} x', WHOLE % "NaN", WHOLE % "1e400", WHOLE % ("[" * 500 + "]" * 500),
        WHOLE % ("9" * 4301), WHOLE % '{"a":1,"a":1}', WHOLE % '"\\ud800"', WHOLE.replace('"t"', '"\\ud800"') % "1",
        '{"type":"t","payload":{},"callback_url":"http://127.0.0.1:9/","callback_url":"http://127.0.0.1/"}',
        '"text"', "5", "true",
    ],
    ids=lambda body: body[:30],
)  # fmt: skip
def test_a_body_that_is_no_strict_json_object_is_refused(api: ApiCalls, body: str) -> None:
    error(api.send(body), 400)


@pytest.mark.parametrize("payload", ['{"a": "\\ud83d\\ude00"}', '[1, "two", null]', "0.25", "false", '""'])
def test_any_json_value_is_a_payload(api: ApiCalls, payload: str) -> None:
    assert api.send(WHOLE % payload).status_code == 201


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", None, "application/x-www-form-urlencoded", "application/jsonp", "application/json; charset=utf-16"],
)
def test_another_content_type_is_a_415(api: ApiCalls, content_type: str | None) -> None:
    assert error(api.send(WHOLE % "1", content_type), 415)["code"] == "unsupported_media_type"


@pytest.mark.parametrize("content_type", ["application/json; charset=UTF-8", "Application/JSON"])
def test_the_content_type_may_be_written_in_full(api: ApiCalls, content_type: str) -> None:
    assert api.send(WHOLE % "1", content_type).status_code == 201


def test_a_compressed_body_is_a_415(api: ApiCalls) -> None:
    answer = api.call("POST", "/v1/jobs", json={}, headers={"Content-Encoding": "gzip"})
    error(answer, 415)


def body_of(length: int) -> bytes:
    """A good submission of exactly that many bytes."""
    frame = WHOLE % '""'
    return frame.replace('""', f'"{"x" * (length - len(frame))}"').encode()


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_over_a_mebibyte_is_a_413(processes: Processes, api_key: str, is_chunked: bool) -> None:
    url = processes.web()

    def send(length: int) -> requests.Response:
        body = body_of(length)
        # A generator has no length, so that it is sent in chunks.
        data = (body[at : at + 65_536] for at in range(0, length, 65_536)) if is_chunked else body
        headers = {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"}
        return requests.post(f"{url}/v1/jobs", data=data, headers=headers, timeout=10)

    assert send(1 << 20).status_code == 201
    for length in ((1 << 20) + 1, 3 << 20):
        answer = send(length)
        assert answer.status_code == 413
        assert answer.json()["error"]["code"] == "payload_too_large"
    assert send(1000).status_code == 201
