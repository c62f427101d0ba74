"""EGRESS_PROXY: what goes through it and how, what is checked all the same, and what is said when it fails."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.attempts import Answer
from app.callbacks import trial
from app.callbacks.trial import TrialRequest
from app.config import ConfigurationError, EgressProxy, Settings
from app.native_threads import NativeThreads
from tests.certificates import AUTHORITY, GOOD
from tests.delivery import (
    LOOPBACK,
    answering,
    hanging,
    keeping_alive,
    receiver,
    resolving,
    running_deliverer,
    split,
    tls_receiver,
)
from tests.proxies import proxy

Send = Callable[..., Answer]


def no_such_name(*_arguments: object, **_options: object) -> list[Any]:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def delivered(url: str, port: int, lookup: Callable[..., list[Any]] = socket.getaddrinfo, **changes: Any) -> Answer:
    settings = {"egress_proxy": EgressProxy("127.0.0.1", port, *changes.pop("credentials", ()))}
    settings |= {name: changes.pop(name) for name in ("allowed_callback_cidrs", "ca_bundle") if name in changes}
    with running_deliverer(lookup=lookup, **settings) as delivery:
        return delivery.call(url, **changes)


def tried(url: str, port: int, lookup: Callable[..., list[Any]] = socket.getaddrinfo, **changes: Any) -> Answer:
    settings = Settings(
        egress_proxy=EgressProxy("127.0.0.1", port, *changes.pop("credentials", ())),
        allowed_callback_cidrs=changes.pop("allowed_callback_cidrs", LOOPBACK),
        ca_bundle=changes.pop("ca_bundle", None),
    )
    request = TrialRequest(callback_url=url, body=b'{"a": 1}', content_type="application/json", **changes)
    return trial.send(settings, request.claim(1, (), datetime(2026, 12, 1, tzinfo=UTC)), NativeThreads(4), lookup)


@pytest.fixture(params=[delivered, tried], ids=["delivery", "trial"])
def send(request: pytest.FixtureRequest) -> Send:
    through: Send = request.param
    return through


@pytest.fixture
def authority(tmp_path: Path) -> str:
    (tmp_path / "authority.pem").write_text(AUTHORITY)
    return str(tmp_path / "authority.pem")


def test_http_is_asked_of_the_proxy_by_its_whole_address(send: Send) -> None:
    with receiver(keeping_alive) as made, proxy() as through:
        answer = send(f"http://127.0.0.1:{made.port}/hook?a=1", through.port)
    assert (answer.error, answer.status_code, answer.response_body) == (None, 200, "ok")
    assert through.heads[0].split("\r\n")[0] == f"POST http://127.0.0.1:{made.port}/hook?a=1 HTTP/1.1"
    line, _, body = split(made.requests[0])
    assert (line, body) == ("POST /hook?a=1 HTTP/1.1", b'{"a": 1}')


def test_https_goes_through_a_tunnel_that_learns_nothing_but_where(send: Send, tmp_path: Path, authority: str) -> None:
    with tls_receiver(GOOD, tmp_path) as made, proxy(names={"receiver.example": "127.0.0.1"}) as through:
        url = f"https://receiver.example:{made.port}/hook"
        answer = send(url, through.port, resolving("127.0.0.1"), ca_bundle=authority, headers=(("X-Mine", "secret"),))
    assert (answer.error, answer.status_code) == (None, 200)
    assert ("X-Of-The-Proxy", "1") not in answer.response_headers
    assert through.heads[0].startswith(f"CONNECT receiver.example:{made.port} HTTP/1.1\r\n")
    for word in ("secret", "webhook", "x-job", "/hook"):
        assert word not in through.heads[0].lower()
    assert list(answer.timings) == ["dns", "connect", "tls", "first_byte", "total"]
    assert b"X-Mine: secret" in made.requests[0]


def test_tls_is_verified_through_the_tunnel(send: Send, tmp_path: Path) -> None:
    with tls_receiver(GOOD, tmp_path) as made, proxy() as through:
        answer = send(f"https://127.0.0.1:{made.port}/", through.port)
    assert answer.error_class == "tls"
    assert made.requests == []


def test_credentials_go_to_the_proxy_alone(send: Send, tmp_path: Path, authority: str) -> None:
    given = ("out", "pa:ss wörd")
    with receiver(keeping_alive) as plain, tls_receiver(GOOD, tmp_path) as encrypted, proxy(":".join(given)) as through:
        for url in (plain.url, f"https://127.0.0.1:{encrypted.port}/"):
            assert send(url, through.port, ca_bundle=authority, credentials=given).error is None
    assert len(through.heads) == 2
    for made in (plain, encrypted):
        assert b"authorization" not in made.requests[0].lower()


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("credentials", [(), ("out", "wrong-password")])
def test_a_proxy_that_wants_other_credentials_fails_and_not_the_receiver(
    send: Send, scheme: str, credentials: tuple[str, ...]
) -> None:
    with receiver(keeping_alive) as made, proxy("out:right") as through:
        answer = send(f"{scheme}://127.0.0.1:{made.port}/", through.port, credentials=credentials)
    assert (answer.error_class, answer.execution_status) == ("connect", "failed")
    assert answer.error == "The egress proxy failed: it answered 407 Proxy Authentication Required."
    assert made.accepted == 0


def test_a_tunnel_that_is_refused_says_so(send: Send) -> None:
    with socket.socket() as closed, proxy() as through:
        closed.bind(("127.0.0.1", 0))
        answer = send(f"https://127.0.0.1:{closed.getsockname()[1]}/", through.port)
    assert (answer.error_class, answer.status_code) == ("connect", None)
    assert answer.error == "The egress proxy failed: it answered 502 Bad Gateway."


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_is_not_there_says_so(send: Send, scheme: str) -> None:
    with receiver(keeping_alive) as made, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        answer = send(f"{scheme}://127.0.0.1:{made.port}/", closed.getsockname()[1], credentials=("out", "secret"))
    assert answer.error_class == "connect"
    assert answer.error == "The egress proxy failed: it could not be connected to: connection refused."
    assert made.accepted == 0, "nothing goes around it"


@pytest.mark.parametrize(
    ("raw", "words"), [(b"", "it closed the connection"), (b"\x16\x03\x01 no HTTP\r\n\r\n", "what it answered is not")]
)
def test_a_proxy_that_speaks_no_http_says_so(send: Send, raw: bytes, words: str) -> None:
    with receiver(answering(raw)) as made:
        answer = send("https://127.0.0.1:9/", made.port)
    assert answer.error_class == "connect"
    assert f"The egress proxy failed: {words}" in (answer.error or "")


def test_a_proxy_that_hangs_is_a_timeout(send: Send) -> None:
    with receiver(hanging) as made:
        answer = send("https://127.0.0.1:9/", made.port, timeout_seconds=0.3)
    assert (answer.error_class, answer.error) == ("timeout", "No connection through the egress proxy within 0.3 s.")


@pytest.mark.parametrize(
    ("url", "lookup"),
    [
        ("http://127.0.0.1:{port}/", no_such_name),
        ("https://10.0.0.1:{port}/", no_such_name),
        ("http://inwards.example:{port}/", resolving("127.0.0.1")),
        ("https://inwards.example:{port}/", resolving("93.184.216.34", "::ffff:10.0.0.1")),
    ],
)
def test_an_address_known_here_is_checked_all_the_same(send: Send, url: str, lookup: Callable[..., list[Any]]) -> None:
    with receiver(keeping_alive) as canary, proxy(names={"inwards.example": "127.0.0.1"}) as through:
        answer = send(url.format(port=canary.port), through.port, lookup, allowed_callback_cidrs=())
    assert (answer.error_class, through.heads, canary.accepted) == ("blocked", [], 0)


def test_a_name_that_only_the_proxy_knows_is_left_to_it(send: Send) -> None:
    with receiver(keeping_alive) as made, proxy(names={"out.example": "127.0.0.1"}) as through:
        url = f"http://out.example:{made.port}/"
        assert send(url, through.port, no_such_name, allowed_callback_cidrs=()).error is None
    assert len(made.requests) == 1


def test_a_name_that_hangs_here_is_left_to_it_in_half_the_time(send: Send) -> None:
    hang = threading.Event()

    def lookup(*_arguments: object, **_options: object) -> list[Any]:
        hang.wait(20)
        return []

    with receiver(keeping_alive) as made, proxy(names={"out.example": "127.0.0.1"}) as through:
        answer = send(f"http://out.example:{made.port}/", through.port, lookup, timeout_seconds=0.8)
        hang.set()
    assert answer.error is None
    assert 400 <= answer.timings["total"] < 800


def test_the_environment_has_no_say(send: Send, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "*")
    with receiver(hanging) as other, receiver(keeping_alive) as made, proxy() as through:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{other.port}")
        assert send(made.url, through.port).error is None
        assert (len(through.heads), other.accepted) == (1, 0)


def test_the_proxys_own_name_is_looked_up_and_not_checked() -> None:
    with receiver(keeping_alive) as made, proxy(names={"out.example": "127.0.0.1"}) as through:
        by_name = {"egress_proxy": EgressProxy("localhost", through.port), "allowed_callback_cidrs": ()}
        with running_deliverer(lookup=no_such_name, **by_name) as delivery:
            assert delivery.call(f"http://out.example:{made.port}/").error is None


def test_a_proxys_name_that_does_not_resolve_says_so() -> None:
    with running_deliverer(egress_proxy=EgressProxy("proxy.invalid", 3128)) as delivery:
        answer = delivery.call("http://127.0.0.1:9/")
    assert answer.error_class == "connect"
    assert answer.error == "The egress proxy failed: its host name could not be looked up."


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("http://proxy.internal:3128", EgressProxy("proxy.internal", 3128)),
        ("http://10.0.0.1:3128/", EgressProxy("10.0.0.1", 3128)),
        ("http://[fd00::1]:80", EgressProxy("fd00::1", 80)),
        ("http://me:p%40ss%3a@proxy:1", EgressProxy("proxy", 1, "me", "p@ss:")),
        ("http://me@proxy:1", EgressProxy("proxy", 1, "me")),
        ("", None),
    ],
)
def test_the_setting_is_read(text: str, read: EgressProxy | None) -> None:
    assert Settings.from_env({"EGRESS_PROXY": text}).egress_proxy == read


@pytest.mark.parametrize(
    "text",
    [
        "proxy:3128",
        "https://me:sesame@proxy:3128",
        "socks5://me:sesame@proxy:1080",
        "http://me:sesame@proxy",
        "http://me:sesame@:80",
        "http://me:sesame@proxy:0",
        "http://me:sesame@proxy:99999",
        "http://me:sesame@proxy:x",
        "http://me:sesame@proxy:80/path",
        "http://me:sesame@proxy:80?a",
        "http://me:sesame@[proxy:80",
    ],
)
def test_what_is_no_proxy_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"EGRESS_PROXY takes http://host:port") as refused:
        Settings.from_env({"EGRESS_PROXY": text})
    assert "ses" not in str(refused.value)


def test_the_password_is_not_shown_where_settings_are() -> None:
    settings = Settings.from_env({"EGRESS_PROXY": "http://me:sesame@proxy:80"})
    assert settings.egress_proxy is not None and settings.egress_proxy.password == "sesame"
    assert "sesame" not in repr(settings)
