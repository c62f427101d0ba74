"""Our reading of a URL against other readers': nothing that one of them takes for a special address may pass."""

import re
import socket
from ipaddress import IPv4Address, IPv6Address, ip_network
from urllib.parse import urlsplit

import pycurl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.callback_url import CallbackUrlRefused, Target, parse
from app.special_networks import SPECIAL_IPV4, SPECIAL_IPV6

AWKWARD = st.text(alphabet="0123456789.xXaAfF:[]%@/\\?#_-oOb\u3002\u2460\uff11\u0967", max_size=24)


def _address_in(cidr: str) -> IPv4Address | IPv6Address:
    network = ip_network(cidr)
    return network.network_address + network.num_addresses // 2


def _spellings(address: IPv4Address | IPv6Address) -> list[str]:
    if isinstance(address, IPv6Address):
        return [f"[{address}]", f"[{address.exploded}]", f"[{str(address).upper()}]"]
    number, parts = int(address), str(address).split(".")
    return [
        str(address),
        str(number),
        hex(number),
        f"0{number:o}",
        ".".join(f"0{int(part):o}" for part in parts),
        ".".join(hex(int(part)) for part in parts),
        f"{parts[0]}.{number & 0xFFFFFF}",
        f"{parts[0]}.{parts[1]}.{number & 0xFFFF}",
        f"{address}.",
        f"[::ffff:{address}]",
        f"[::{address}]",
        f"[64:ff9b::{address}]",
        f"[2002:{number >> 16:x}:{number & 0xFFFF:x}::]",
    ]


SPELLINGS = st.sampled_from([cidr for cidr, _ in SPECIAL_IPV4 + SPECIAL_IPV6]).map(_address_in).flatmap(
    lambda address: st.sampled_from(_spellings(address))
)  # fmt: skip


def _parse_or_none(url: str) -> Target | None:
    try:
        return parse(url)
    except CallbackUrlRefused:
        return None


@given(st.text())
def test_no_text_makes_it_raise_anything_else(text: str) -> None:
    _parse_or_none(text)
    _parse_or_none(f"http://{text}")
    _parse_or_none(f"https://{text}.example/")


@given(st.text(alphabet=st.characters(categories=["L", "M", "N"]), max_size=30))
def test_a_name_that_passes_is_plain_ascii_and_no_number(text: str) -> None:
    target = _parse_or_none(f"http://{text}/")
    if target is not None:
        assert re.fullmatch(r"[a-z0-9_.-]+", target.host)
        assert parse(target.url) == target
        if text.isascii():
            assert target.host == text.lower()


@given(SPELLINGS, st.sampled_from(["http://{}/", "https://{}:8443/a", "http://{}?q"]))
def test_no_spelling_of_a_special_address_passes(spelling: str, form: str) -> None:
    assert _parse_or_none(form.format(spelling)) is None


@given(AWKWARD | SPELLINGS)
@example("0x7f.1")
@example("1.2.3.4.")
def test_what_the_c_library_reads_as_an_ipv4_address_is_that_or_refused(host: str) -> None:
    target = _parse_or_none(f"http://{host}/")
    if target is None or target.address is not None:
        return
    with pytest.raises(OSError, match="illegal"):
        socket.inet_aton(target.host)


@given(AWKWARD | SPELLINGS)
def test_python_reads_the_same_host_and_port(text: str) -> None:
    target = _parse_or_none(f"http://{text}")
    if target is not None:
        split = urlsplit(target.url)
        assert (split.hostname, split.port or 80, split.username) == (target.host, target.port, None)


def _host_that_libcurl_calls(url: str) -> tuple[str, int]:
    """(host, port) as libcurl understood them. Every name resolves to one address here, and no socket is opened."""
    curl = pycurl.Curl()
    try:
        curl.setopt(pycurl.URL, url)
        curl.setopt(pycurl.PROXY, "")
        curl.setopt(pycurl.RESOLVE, [f"*:{parse(url).port}:203.0.113.77"])
        curl.setopt(pycurl.OPENSOCKETFUNCTION, lambda _purpose, _address: pycurl.SOCKET_BAD)
        with pytest.raises(pycurl.error) as failure:
            curl.perform()
    finally:
        curl.close()
    code, message = failure.value.args
    assert code == pycurl.E_COULDNT_CONNECT
    told = re.match(r"Failed to connect to (.+):([0-9]+) ", message)
    assert told is not None, message
    return told[1], int(told[2])


@given(AWKWARD | st.from_regex(r"[a-f0-9x_-]{1,9}(\.[a-f0-9x_-]{1,9}){0,4}\.?(:[0-9]{1,5})?[/?]?", fullmatch=True))
@example("93.184.216.34:8080/a")
@example("[2606:2800:220:0001::1]:8443")
@example("example.com.?a@b:1")
@example("b\u00fccher.example")
def test_libcurl_calls_the_host_and_port_that_we_checked(text: str) -> None:
    target = _parse_or_none(f"http://{text}")
    if target is not None:
        assert _host_that_libcurl_calls(target.url) == (target.host, target.port)
