"""The request a receiver sees: method, body, headers and signature, to the byte."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from standardwebhooks import Webhook

from app.callback import METHODS
from app.version import VERSION
from tests.delivery import (
    NOW,
    SECRETS,
    Delivery,
    answering,
    keeping_alive,
    make_claim,
    receiver,
    running_deliverer,
    split,
)


@pytest.fixture(scope="module")
def delivery() -> Iterator[Delivery]:
    with running_deliverer() as delivery:
        yield delivery


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


@pytest.mark.parametrize("method", METHODS)
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


LATIN_1 = "".join(map(chr, (*range(0x20, 0x7F), *range(0xA0, 0x100))))


@pytest.mark.parametrize("value", [LATIN_1, "\xa0", "\xa0x\xa0", "x:y; z", ";", ":", '"', "%00", "\xad"])
def test_latin_1_values_go_out_byte_for_byte(delivery: Delivery, value: str) -> None:
    with receiver(keeping_alive) as made:
        assert delivery.call(made.url, headers=(("X-Value", value),)).error is None
    [line] = [line for line in made.requests[0].split(b"\r\n") if line.startswith(b"X-Value:")]
    assert line.removeprefix(b"X-Value:").strip(b" ") == value.encode("latin-1").strip(b" ")


@pytest.mark.parametrize(
    "name", ["Accept", "accept", "Authorization", "Cookie", "Accept-Encoding", "Range", "X!#$%&'*+.^_`|~"]
)
def test_a_header_of_the_job_is_sent_once_and_libcurl_adds_none(delivery: Delivery, name: str) -> None:
    with receiver(keeping_alive) as made:
        assert delivery.call(made.url, headers=((name, "given"),)).error is None
    _, headers, _ = split(made.requests[0])
    assert [value for found, value in headers if found.lower() == name.lower()] == ["given"]


@pytest.mark.parametrize("content_type", ["application/xml", "text/plain; charset=utf-8", 'a/b;c="d e"', "A/B"])
@pytest.mark.parametrize("method", METHODS)
def test_a_body_goes_with_its_content_type(delivery: Delivery, method: str, content_type: str) -> None:
    body = "<é/>\r\n\r\n".encode()
    with receiver(keeping_alive) as made:
        assert delivery.call(made.url, method=method, body=body, content_type=content_type).error is None
    _, headers, sent = split(made.requests[0])
    assert (sent, dict(headers)["Content-Type"], dict(headers)["Content-Length"]) == (
        body,
        content_type,
        str(len(body)),
    )


@pytest.mark.parametrize(
    ("statuses", "status", "error_class"),
    [
        (((200, 200),), 200, None),
        (((200, 299),), 299, None),
        (((200, 299),), 300, "redirect"),
        (((200, 200),), 201, "protocol"),
        (((302, 302),), 302, None),
        (((302, 302),), 303, "redirect"),
        (((404, 404),), 404, None),
        (((200, 299), (404, 404)), 404, None),
        (((404, 404),), 200, "protocol"),
        (((404, 404),), 410, "http_4xx"),
        (((500, 599),), 503, None),
        (((200, 299),), 503, "http_5xx"),
    ],
)
def test_success_is_what_the_job_says(
    delivery: Delivery, statuses: tuple[tuple[int, int], ...], status: int, error_class: str | None
) -> None:
    with receiver(answering(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % status)) as made:
        answer = delivery.call(made.url, success_statuses=statuses)
    assert (answer.status_code, answer.error_class) == (status, error_class)
    assert answer.execution_status == ("succeeded" if error_class is None else "failed")


def test_a_good_status_that_the_job_does_not_take_is_told_so(delivery: Delivery) -> None:
    with receiver(keeping_alive) as made:
        refused = delivery.call(made.url, success_statuses=((201, 299), (404, 404)))
    assert refused.error == "The receiver answered 200 OK, which this job does not take as success."
