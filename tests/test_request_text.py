"""A request as text: the head as it goes over the wire, and a command that sends the same in a real shell."""

from __future__ import annotations

import subprocess
from uuid import UUID

import pytest

from app.request_text import LEFT_OUT, curl, encoded, headers, lines, may_be_secret
from tests.delivery import answering, make_claim, receiver, running_deliverer
from tests.programs import other_language, requires_program
from tests.test_callback_request import split

JOB = UUID(int=1)
OWN = (("X-Empty", ""), ("X-Blank", " "), ("X-Tenant", 'it\'s "7" $HOME `id` \\'), ("Accept", "a/b"))
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("body", [None, "", "it's\n$HOME `id` \\ é !", "@file", "-x"])
def test_the_command_sends_what_the_worker_sends(method: str, body: str | None) -> None:
    """The real curl against the real deliverer, on one receiver."""
    shell = requires_program("sh")
    other_language("curl")
    content_type = None if body is None else "text/plain"
    with running_deliverer() as delivery, receiver(answering(ANSWER)) as made:
        url = f"{made.url}/../a/./b?x=[1-3]&y={{a,b}}'"
        sent_body = None if body is None else body.encode()
        claim = make_claim(url, method=method, body=sent_body, headers=OWN, content_type=content_type)
        delivery.deliverer.submit([claim])
        delivery.wait(1)
        fields = headers(claim.job_id, claim.type, claim.attempt, claim.max_attempts, OWN, content_type)
        subprocess.run([shell, "-c", curl(url, fields, body, method)], capture_output=True, check=True, timeout=20)
    (line, sent, content), (other_line, other, other_content) = map(split, made.requests)
    assert (other_line, other_content) == (line, content)
    signed = {"webhook-timestamp", "webhook-signature"}
    expected = {name: value for name, value in sent if name not in signed}
    if body is None and method not in ("GET", "DELETE"):
        # The worker says that there is none; curl says nothing.
        expected.pop("Content-Length")
    assert dict(other) == expected


def test_the_head_is_that_of_the_wire() -> None:
    fields = headers(JOB, "t", 2, 5, (("X-A", "b"),), "a/b")
    head = lines("https://h.example/p?q", fields, 10, "PUT").split("\n")
    assert head[:3] == ["PUT /p?q HTTP/1.1", "Host: h.example", "Content-Type: a/b"]
    assert {"X-A: b", "X-Job-Attempt: 2", "Content-Length: 10"} < set(head)
    bare = lines("https://h.example", headers(JOB, "t", 1, 5, (), None), None, "GET")
    assert bare.startswith("GET / HTTP/1.1\n") and "Content-" not in bare


@pytest.mark.parametrize(
    ("given", "sent"),
    [("a b%c", "a b%c"), (" edge ", "%20edge%20"), ("   ", "%20%20%20"), ("", ""), ("日本", "%E6%97%A5%E6%9C%AC")],
)
def test_the_type_is_encoded_where_it_must_be(given: str, sent: str) -> None:
    assert encoded(given) == sent


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("Authorization", True), ("AUTHORIZATION", True), ("Cookie", True), ("X-Api-Key", True), ("x-amz-security-token", True),
        ("X-Client-Secret", True), ("X-Password", True), ("webhook-signature", True), ("X-Credentials", True),
        ("Idempotency-Key", False), ("idempotency-key", False), ("X-Tenant", False), ("Accept", False), ("webhook-id", False),
    ],
)  # fmt: skip
def test_what_may_be_secret_is_left_out_of_the_command(name: str, is_secret: bool) -> None:
    assert may_be_secret(name) is is_secret
    command = curl("https://h/", [(name, "hush")], None, "GET")
    assert ("hush" in command, LEFT_OUT in command) == (not is_secret, is_secret)
