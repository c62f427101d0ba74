"""Where a callback may go at the moment it goes: addresses, names, TLS, and nothing taken from the environment."""

from __future__ import annotations

import errno
import os
import socket
import statistics
import threading
from pathlib import Path
from typing import Any

import pycurl
import pytest

from app.callback_url import Target
from app.callbacks.call import Call
from app.config import Settings
from tests.certificates import AUTHORITY, GOOD, WRONG
from tests.delivery import (
    LOOPBACK,
    NOW,
    Receiver,
    hanging,
    keeping_alive,
    make_claim,
    receiver,
    resolving,
    running_deliverer,
    tls_receiver,
)
from tests.eventually import eventually


@pytest.mark.parametrize(
    "addresses",
    [
        ("127.0.0.1",),
        ("10.0.0.1",),
        ("::1",),
        ("::ffff:10.0.0.1",),
        ("::ffff:127.0.0.1",),
        ("93.184.216.34", "127.0.0.1"),
        ("127.0.0.1", "93.184.216.34"),
        ("169.254.169.254",),
        ("fe80::1%lo",),
        ("0.0.0.0",),
    ],
)
def test_a_name_that_leads_inwards_at_delivery_is_blocked(addresses: tuple[str, ...]) -> None:
    lookup = resolving(*addresses)
    with receiver(keeping_alive) as canary, running_deliverer(lookup=lookup, allowed_callback_cidrs=()) as delivery:
        answer = delivery.call(f"http://rebinding.example:{canary.port}/")
        assert (answer.error_class, answer.execution_status, answer.status_code) == ("blocked", "blocked", None)
        assert not any(address in (answer.error or "") for address in addresses)
        assert canary.accepted == 0


@pytest.mark.parametrize("addresses", [("127.0.0.1", "10.0.0.1"), ("10.0.0.1", "127.0.0.1")])
def test_one_refused_address_spoils_the_others(addresses: tuple[str, ...]) -> None:
    with receiver(keeping_alive) as allowed, running_deliverer(lookup=resolving(*addresses)) as delivery:
        assert delivery.call(f"http://mixed.example:{allowed.port}/").error_class == "blocked"
        assert allowed.accepted == 0


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}/", "http://[::1]:{port}/", "http://localhost:{port}/"])
def test_a_url_that_is_not_allowed_any_more_is_blocked(url: str) -> None:
    with receiver(keeping_alive) as canary, running_deliverer(allowed_callback_cidrs=()) as delivery:
        answer = delivery.call(url.format(port=canary.port))
        assert (answer.error_class, canary.accepted) == ("blocked", 0)
        assert delivery.deliverer.in_flight == 0


def test_the_socket_is_the_last_check() -> None:
    """Even if a refused address got past the lookup, no connection to it is opened."""
    with receiver(keeping_alive) as canary:
        call = Call(Settings(allowed_callback_cidrs=()), lambda: True)
        url = f"http://past.example:{canary.port}/"
        call.begin(make_claim(url), Target(url=url, scheme="http", host="past.example", port=canary.port), NOW)
        call.arm(("127.0.0.1",))
        with pytest.raises(pycurl.error) as refused:
            call.curl.perform()
        answer = call.answer(refused.value.args[0], refused.value.args[1])
        assert (answer.error_class, answer.error) == (
            "blocked",
            "The address may not be called: it points to a loopback address.",
        )
        assert canary.accepted == 0


def test_a_redirect_inwards_reaches_nothing() -> None:
    with receiver(keeping_alive) as canary:

        def redirecting(connection: socket.socket, made: Receiver) -> None:
            made.read_request(connection)
            connection.sendall(
                f"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{canary.port}/\r\nContent-Length: 0\r\n\r\n".encode()
            )
            made.is_closed.wait(5)

        with receiver(redirecting) as made, running_deliverer() as delivery:
            assert delivery.call(made.url).error_class == "redirect"
        assert canary.accepted == 0


def test_names_are_looked_up_once_and_kept() -> None:
    asked: list[str] = []

    def lookup(host: str, *_arguments: object, **_options: object) -> list[Any]:
        asked.append(host)
        return resolving("127.0.0.1")(host, None)

    with receiver(keeping_alive) as made, running_deliverer(lookup=lookup) as delivery:
        url = f"http://receiver.example:{made.port}/"
        delivery.deliverer.submit([make_claim(url) for _ in range(20)])
        answers = [answer for _, answer in delivery.wait(20)]
        again = delivery.call(url)
    assert {answer.error_class for answer in [*answers, again]} == {None}
    assert asked == ["receiver.example"]
    assert all(list(answer.timings) == ["dns", "connect", "first_byte", "total"] for answer in answers)
    assert list(again.timings) == ["dns", "first_byte", "total"], "a connection that is used again was not made"
    assert all(list(answer.timings.values()) == sorted(answer.timings.values()) for answer in answers)
    assert f"Host: receiver.example:{made.port}".encode() in made.requests[0]


def test_a_name_that_does_not_exist_is_a_dns_failure() -> None:
    def lookup(*_arguments: object, **_options: object) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with running_deliverer(lookup=lookup) as delivery:
        answer = delivery.call("http://missing.example/")
    assert answer.error_class == "dns"
    assert answer.error == "The host name could not be looked up: Name or service not known."


def test_hanging_lookups_hold_up_nobody_and_end_at_their_deadline() -> None:
    hang = threading.Event()

    def lookup(host: str, *_arguments: object, **_options: object) -> list[Any]:
        if host.startswith("hangs"):
            hang.wait(30)
        return resolving("127.0.0.1")(host, None)

    with receiver(keeping_alive) as made, running_deliverer(lookup=lookup) as delivery:
        delivery.deliverer.submit([make_claim(f"http://hangs{n}.example/", timeout_seconds=30.0) for n in range(500)])
        quick = [delivery.call(f"http://quick{n}.example:{made.port}/") for n in range(20)]
        assert {answer.error for answer in quick} == {None}
        assert statistics.median(answer.timings["dns"] for answer in quick) < 50
        assert delivery.deliverer.in_flight == 500
        late = delivery.call("http://hangs0.example/", timeout_seconds=0.1)
        assert (late.error_class, late.execution_status) == ("timeout", "timed_out")
        assert late.error == "The host name was not looked up within 0.1 s."
        hang.set()


def test_a_refused_connection_says_so() -> None:
    with socket.socket() as closed, running_deliverer() as delivery:
        closed.bind(("127.0.0.1", 0))
        answer = delivery.call(f"http://127.0.0.1:{closed.getsockname()[1]}/")
    assert (answer.error_class, answer.error) == ("connect", "The connection could not be made: connection refused.")


def test_the_second_address_is_tried_when_the_first_refuses() -> None:
    with receiver(keeping_alive) as made, running_deliverer(lookup=resolving("::1", "127.0.0.1")) as delivery:
        assert delivery.call(f"http://both.example:{made.port}/").error_class is None


def test_proxies_and_netrc_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with receiver(keeping_alive) as made, receiver(hanging) as proxy, running_deliverer() as delivery:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        (tmp_path / ".netrc").write_text("machine 127.0.0.1 login secret password secret\n")
        monkeypatch.setenv("HOME", str(tmp_path))
        assert delivery.call(made.url).error_class is None
        assert proxy.accepted == 0
    assert b"authorization" not in made.requests[0].lower()


@pytest.fixture
def authority(tmp_path: Path) -> str:
    path = tmp_path / "authority.pem"
    path.write_text(AUTHORITY)
    return str(path)


def test_tls_is_verified_against_the_configured_bundle(tmp_path: Path, authority: str) -> None:
    lookup = resolving("127.0.0.1")
    with tls_receiver(GOOD, tmp_path) as made, running_deliverer(lookup=lookup, ca_bundle=authority) as delivery:
        by_name = delivery.call(f"https://receiver.example:{made.port}/")
        by_address = delivery.call(f"https://127.0.0.1:{made.port}/")
    assert (by_name.error, by_address.error) == (None, None)
    assert list(by_name.timings) == ["dns", "connect", "tls", "first_byte", "total"]


def test_a_certificate_for_another_name_is_refused(tmp_path: Path, authority: str) -> None:
    lookup = resolving("127.0.0.1")
    with tls_receiver(WRONG, tmp_path) as made, running_deliverer(lookup=lookup, ca_bundle=authority) as delivery:
        answer = delivery.call(f"https://receiver.example:{made.port}/")
    assert (answer.error_class, answer.status_code) == ("tls", None)
    assert made.requests == []


def test_an_unknown_authority_is_refused(tmp_path: Path) -> None:
    with tls_receiver(GOOD, tmp_path) as made, running_deliverer() as delivery:
        answer = delivery.call(f"https://127.0.0.1:{made.port}/")
    assert answer.error_class == "tls"
    assert (answer.error or "").startswith("TLS failed: ")
    assert made.requests == []


def test_a_receiver_without_tls_is_a_tls_failure(authority: str) -> None:
    def plain(connection: socket.socket, made: Receiver) -> None:
        connection.recv(100)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with receiver(plain) as made, running_deliverer(ca_bundle=authority) as delivery:
        assert delivery.call(f"https://127.0.0.1:{made.port}/").error_class == "tls"


def test_loopback_is_open_only_where_it_was_opened() -> None:
    assert Settings().allowed_callback_cidrs == ()
    with receiver(keeping_alive) as made, running_deliverer(allowed_callback_cidrs=LOOPBACK) as delivery:
        assert delivery.call(f"http://localhost:{made.port}/").error_class is None
        eventually(lambda: delivery.deliverer.in_flight == 0)


def test_running_out_of_descriptors_fails_the_call_and_not_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> socket.socket:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with receiver(keeping_alive) as made, running_deliverer() as delivery:
        with monkeypatch.context() as patched:
            patched.setattr("app.callbacks.call._Handed", refuse)
            answer = delivery.call(made.url)
        assert (answer.error_class, answer.error) == (
            "connect",
            "The connection could not be made: too many open files.",
        )
        assert delivery.call(made.url).error_class is None
