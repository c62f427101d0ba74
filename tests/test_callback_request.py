"""The request a receiver sees: method, body, headers and signature, to the byte."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from standardwebhooks import Webhook

from app.version import VERSION
from tests.delivery import NOW, SECRETS, Delivery, keeping_alive, make_claim, receiver, running_deliverer


@pytest.fixture(scope="module")
def delivery() -> Iterator[Delivery]:
    with running_deliverer() as delivery:
        yield delivery


def split(request: bytes) -> tuple[str, list[tuple[str, str]], bytes]:
    """(request line, headers in their order, body)."""
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    return first, [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)], body


def test_the_default_request_has_exactly_these_headers(delivery: Delivery) -> None:
    with receiver(keeping_alive) as made:
        claim = make_claim(made.url, type="Mail née", attempt=3, max_attempts=7)
        delivery.deliverer.submit([claim])
        delivery.wait(1)
    line, headers, body = split(made.requests[0])
    fields = dict(headers)
    signature, timestamp = fields.pop("webhook-signature"), fields.pop("webhook-timestamp")
    assert line == "POST /hook HTTP/1.1"
    assert body == b'{"a": 1}'
    assert len(headers) == len(fields) + 2
    assert fields == {
        "Host": f"127.0.0.1:{made.port}",
        "User-Agent": f"punctual/{VERSION}",
        "Content-Type": "application/json",
        "Content-Length": "8",
        "Idempotency-Key": str(claim.job_id),
        "webhook-id": str(claim.job_id),
        "X-Job-ID": str(claim.job_id),
        "X-Job-Type": "Mail n%C3%A9e",
        "X-Job-Attempt": "3",
        "X-Job-Max-Attempts": "7",
    }
    # The time is PostgreSQL's as the clock was told, not this host's.
    assert 0 <= int(timestamp) - NOW.timestamp() < 60
    assert signature.startswith("v1,")


def test_the_signature_is_one_that_the_reference_library_takes(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    payload = '{"big": 12345678901234567890, "b": "\\u0000", "a": "é"}'.encode()
    with receiver(keeping_alive) as made:
        assert delivery.call(made.url, body=payload).error_class is None
    _, headers, body = split(made.requests[0])
    fields = {name.lower(): value for name, value in headers}
    assert body == payload
    verifier = Webhook(SECRETS[0])
    # The library compares with the host's clock; ours was told another time.
    monkeypatch.setattr(verifier, f"_{Webhook.__name__}__verify_timestamp", lambda _header: NOW)
    verifier.verify(body, fields)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("body", [None, b"", b"some \0 bytes"])
def test_each_method_with_and_without_a_body(delivery: Delivery, method: str, body: bytes | None) -> None:
    with receiver(keeping_alive) as made:
        # Twice, and another in between: a handle that is used again keeps nothing of the call before.
        for verb, content in ((method, body), ("POST", b"other"), (method, body)):
            answer = delivery.call(made.url, method=verb, body=content, content_type="text/plain")
            assert (answer.status_code, answer.error) == (200, None)
    for request in (made.requests[0], made.requests[2]):
        line, headers, sent = split(request)
        fields = dict(headers)
        assert line == f"{method} /hook HTTP/1.1"
        assert sent == (body or b"")
        assert ("Content-Type" in fields) is (body is not None)
        expected_length = None if body is None and method in ("GET", "DELETE") else str(len(body or b""))
        assert fields.get("Content-Length") == expected_length


def test_headers_of_the_job_follow_as_given(delivery: Delivery) -> None:
    given = (
        ("X-Empty", ""),
        ("X-Blank", "  "),
        ("X-Latin", "café"),
        ("X-Twice", "1"),
        ("X-Twice", "2"),
        ("Accept", "a/b"),
    )
    with receiver(keeping_alive) as made:
        delivery.call(made.url, headers=given)
    _, headers, _ = split(made.requests[0])
    sent = [(name, value) for name, value in headers if name in dict(given)]
    assert sent == [(name, value.strip()) for name, value in given]


def test_the_path_and_query_go_out_as_they_stand(delivery: Delivery) -> None:
    with receiver(keeping_alive) as made:
        delivery.call(f"http://127.0.0.1:{made.port}/a/../b/./c;d?x=%2F&y=[1]|'")
        delivery.call(f"http://127.0.0.1:{made.port}")
    assert split(made.requests[0])[0] == "POST /a/../b/./c;d?x=%2F&y=[1]|' HTTP/1.1"
    assert split(made.requests[1])[0] == "POST / HTTP/1.1"


def test_a_large_body_goes_without_asking_first(delivery: Delivery) -> None:
    body = b"0123456789abcdef" * 131_072  # libcurl asks from 1 MiB on
    with receiver(keeping_alive) as made:
        assert delivery.call(made.url, body=body).error_class is None
    _, headers, sent = split(made.requests[0])
    assert sent == body
    assert "expect" not in {name.lower() for name, _ in headers}


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("plain", "plain"),
        ("a b%c", "a b%c"),
        (" edge ", "%20edge%20"),
        ("   ", "%20%20%20"),
        ("日本", "%E6%97%A5%E6%9C%AC"),
    ],
)
def test_the_job_type_is_encoded_where_it_must_be(delivery: Delivery, given: str, sent: str) -> None:
    with receiver(keeping_alive) as made:
        delivery.call(made.url, type=given)
    assert dict(split(made.requests[0])[1])["X-Job-Type"] == sent


@pytest.mark.parametrize(
    "changes",
    [
        {"headers": (("X-A", "a\r\nX-Injected: yes"),)},
        {"headers": (("X-A\n", "a"),)},
        {"headers": (("X-A", "日本"),)},
        {"content_type": "text/plain\r\nX-Injected: yes"},
        {"signing_secrets": ("whsec_short",)},
    ],
)
def test_a_claim_that_cannot_be_sent_fails_alone(delivery: Delivery, changes: dict[str, object]) -> None:
    with receiver(keeping_alive) as made:
        answer = delivery.call(made.url, **changes)
        assert (answer.error_class, answer.status_code) == ("protocol", None)
        assert delivery.call(made.url).error_class is None
    assert len(made.requests) == 1


def test_success_is_what_the_job_says(delivery: Delivery) -> None:
    with receiver(keeping_alive) as made:
        assert delivery.call(made.url, success_statuses=((200, 200),)).error_class is None
        refused = delivery.call(made.url, success_statuses=((201, 299), (404, 404)))
    assert (refused.status_code, refused.error_class) == (200, "protocol")
    assert refused.error == "The receiver answered 200 OK, which this job does not take as success."
