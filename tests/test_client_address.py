"""Whose address a request comes from."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from app.client_address import client_address, throttled_as

PROXIES = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "address"),
    [
        ("10.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["203.0.113.9, 198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["203.0.113.9", "198.51.100.7, 10.2.3.4"], "198.51.100.7"),
        ("10.0.0.1", ["198.51.100.7:4711"], "198.51.100.7"),
        ("10.0.0.1", ["[2001:db8::1]:443"], "2001:db8::1"),
        ("10.0.0.1", ["2001:db8::1"], "2001:db8::1"),
        ("10.0.0.1", ["::ffff:198.51.100.7"], "198.51.100.7"),
        ("::ffff:10.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("fd00::1", ["198.51.100.7"], "198.51.100.7"),
        ("", ["198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", ["198.51.100.7, nonsense"], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.7, nonsense, 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", ["198.51.100.7,"], "10.0.0.1"),
    ],
)
def test_the_nearest_address_that_is_no_proxy_of_ours_counts(peer: str, forwarded_for: list[str], address: str) -> None:
    assert client_address(peer, forwarded_for, PROXIES) == address


def test_a_stranger_cannot_choose_its_address() -> None:
    assert client_address("198.51.100.7", ["203.0.113.9"], PROXIES) == "198.51.100.7"


@pytest.mark.parametrize("peer", ["10.0.0.1", "198.51.100.7"])
def test_without_trusted_proxies_the_header_does_not_count(peer: str) -> None:
    assert client_address(peer, ["203.0.113.9"], ()) == peer


def test_a_peer_without_an_address_is_unknown() -> None:
    assert client_address(None, [], ()) == "unknown"


def test_failures_count_for_a_whole_ipv6_network() -> None:
    assert throttled_as("2001:db8:1:2:3:4:5:6") == throttled_as("2001:db8:1:2:ffff::1") == "2001:db8:1:2::"
    assert throttled_as("2001:db8:1:3::1") != throttled_as("2001:db8:1:2::1")
    assert throttled_as("198.51.100.7") == "198.51.100.7"
