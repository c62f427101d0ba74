"""Which addresses may be called, and what an operator's setting opens."""

import re
from ipaddress import ip_address, ip_network

import pytest

from app.callback_url import CallbackUrlRefused, address_verdict, parse, parse_allowed
from app.special_networks import SPECIAL_IPV4, SPECIAL_IPV6


def _words(text: str) -> list[str]:
    return text.split()


SPECIAL_ADDRESSES = _words("""
    0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.254 168.63.129.16
    169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.8 192.0.0.9 192.0.0.170 192.0.0.255 192.0.2.1 192.31.196.1
    192.52.193.1 192.88.99.1 192.88.99.2 192.168.1.1 192.175.48.1 198.18.0.1 198.19.255.255 198.51.100.1
    203.0.113.9 224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255 :: ::1 0:0:0:0:0:0:0:1 ::127.0.0.1 ::8.8.8.8
    ::ffff:127.0.0.1 ::FFFF:7F00:1 ::ffff:169.254.169.254 ::ffff:8.8.8.8 0:0:0:0:0:ffff:10.0.0.1
    ::ffff:0:127.0.0.1 ::ffff:0:8.8.8.8 64:ff9b::7f00:1 64:ff9b::8.8.8.8 64:ff9b:1::10.0.0.1 64:ff9b:1:ffff::1
    100::1 100:0:0:1::1 2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:1::1 2001:1::3 2001:2::1 2001:3::1
    2001:4:112::1 2001:10::1 2001:20::1 2001:30::1 2001:1ff:ffff::1 2001:db8::1 2002:7f00:1:: 2002:808:808::1
    2620:4f:8000::1 3fff::1 3fff:fff::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1 febf::1 fec0::1 feff::1 ff02::1
    ff0e::1
""")
PUBLIC_ADDRESSES = _words("""
    1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 93.184.216.34 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0
    168.63.129.15 168.63.129.17 172.15.255.255 172.32.0.0 192.0.1.0 192.0.3.0 198.17.255.255 198.20.0.0
    223.255.255.255 2001:200::1 2001:4860:4860::8888 2003::1 2606:2800:220:1:248:1893:25c8:1946
    2606:4700::6810:84e5 2a00:1450::1 3ffe::1 3fff:1000::1
""")


def _refused(url: str) -> str:
    with pytest.raises(CallbackUrlRefused) as refusal:
        parse(url)
    return str(refusal.value)


@pytest.mark.parametrize("address", SPECIAL_ADDRESSES)
def test_a_special_address_is_refused_as_host_and_as_what_a_name_resolves_to(address: str) -> None:
    host = f"[{address}]" if ":" in address else address
    assert "ALLOWED_CALLBACK_CIDRS" in _refused(f"http://{host}/")
    for form in (address, ip_address(address)):
        reason = address_verdict(form)
        assert reason is not None
        assert reason.startswith("it points to ")
        # A tenant may read it: it gives no address away.
        assert not re.search(r"\d+\.\d+|[0-9a-f]*::", reason)


@pytest.mark.parametrize("address", PUBLIC_ADDRESSES)
def test_a_public_address_may_be_called(address: str) -> None:
    host = f"[{address}]" if ":" in address else address
    target = parse(f"https://{host}/hook")
    assert target.address == ip_address(address)
    assert target.url == f"https://{host}/hook"
    assert address_verdict(address) is None
    assert address_verdict(ip_address(address)) is None


@pytest.mark.parametrize("cidr", [cidr for cidr, _ in SPECIAL_IPV4 + SPECIAL_IPV6])
def test_each_network_of_the_list_is_refused_from_its_first_to_its_last_address(cidr: str) -> None:
    network = ip_network(cidr)
    for address in (network.network_address, network.broadcast_address):
        assert address_verdict(address) is not None
        assert address_verdict(address, (network,)) is None


@pytest.mark.parametrize("address", ["", "localhost", "127.1", "0x7f000001", "1", "[::1]", "8.8.8.8/32", "fe80::1%eth0", "2606:2800::1%1", "8.8.8.8 "])  # fmt: skip
def test_what_is_no_plain_address_gets_no_good_verdict(address: str) -> None:
    assert address_verdict(address) is not None
    assert address_verdict(address, parse_allowed("0.0.0.0/0, ::/0")) is not None


@pytest.mark.parametrize(
    ("allowed", "url", "is_taken"),
    [
        ("", "http://127.0.0.1/", False),
        ("127.0.0.0/8", "http://127.0.0.1:8080/hook", True),
        ("127.0.0.0/8", "http://127.1/", False),
        ("127.0.0.0/8", "http://127.0.0.1./", False),
        ("127.0.0.0/8", "http://2130706433/", False),
        ("127.0.0.0/8", "http://[::1]/", False),
        ("127.0.0.0/8", "http://[::ffff:127.0.0.1]/", False),
        ("127.0.0.0/8", "http://[::127.0.0.1]/", False),
        ("127.0.0.0/8", "http://[64:ff9b::7f00:1]/", False),
        ("127.0.0.0/8", "http://[2002:7f00:1::]/", False),
        ("127.0.0.0/8", "http://10.0.0.1/", False),
        ("127.0.0.0/8", "http://localhost:8080/", True),
        ("127.0.0.0/8", "http://LOCALHOST./", True),
        ("127.0.0.1/32", "http://localhost/", True),
        ("::1", "http://localhost/", True),
        ("10.0.0.0/8", "http://localhost/", False),
        ("127.0.0.0/8", "http://foo.localhost/", False),
        ("127.0.0.0/8", "http://localhost.localdomain/", False),
        ("127.0.0.0/8", "http://printer.local/", False),
        ("10.0.0.0/8", "http://10.1.2.3/", True),
        ("10.0.0.0/8", "http://[::ffff:10.1.2.3]/", False),
        ("::ffff:10.0.0.0/104", "http://[::ffff:10.1.2.3]/", True),
        ("::ffff:0:0/96", "http://[::ffff:10.1.2.3]/", True),
        ("::ffff:10.0.0.0/104", "http://[::ffff:127.0.0.1]/", False),
        ("::ffff:10.0.0.0/104", "http://10.1.2.3/", False),
        ("64:ff9b::/96", "http://[64:ff9b::808:808]/", True),
        ("fd00::/8", "http://[fd00:ec2::254]/", True),
        ("0.0.0.0/0", "http://[::1]/", False),
        ("0.0.0.0/0", "http://169.254.169.254/", True),
        ("::/0", "http://[::1]/", True),
        ("::/0", "http://127.0.0.1/", False),
        ("8.8.8.0/24", "http://93.184.216.34/", True),
    ],
)
def test_an_opened_network_opens_itself_and_nothing_else(allowed: str, url: str, is_taken: bool) -> None:
    networks = parse_allowed(allowed)
    if is_taken:
        target = parse(url, networks)
        assert target.address is None or address_verdict(target.address, networks) is None
    else:
        with pytest.raises(CallbackUrlRefused):
            parse(url, networks)


@pytest.mark.parametrize("text", ["", " ", ",", "none"])
def test_an_empty_setting_opens_nothing(text: str) -> None:
    assert parse_allowed(text) == ()


def test_networks_are_separated_by_commas_or_spaces() -> None:
    expected = (ip_network("10.0.0.0/8"), ip_network("192.168.1.7/32"), ip_network("fd00::/8"), ip_network("::1/128"))
    assert parse_allowed("10.0.0.0/8,192.168.1.7, fd00::/8\n::1") == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("10.0.0.0/8, ten", "ten"),
        ("10.0.0.0/33", "10.0.0.0/33"),
        ("::1/129", "::1/129"),
        ("10/8", "10/8"),
        ("10", "10"),
        ("10.0.0.0/255.0.0.0", "10.0.0.0/255.0.0.0"),
        ("010.0.0.0/8", "010.0.0.0/8"),
        ("10.0.0.0/", "10.0.0.0/"),
        ("fe80::1%eth0", "fe80::1%eth0"),
        ("localhost", "localhost"),
        ("none, 10.0.0.0/8", "none"),
        ("10.0.0.0/8;::1", "10.0.0.0/8;::1"),
    ],
)
def test_a_bad_network_is_named(text: str, part: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(part))):
        parse_allowed(text)


def test_bits_beyond_the_prefix_are_refused_with_what_to_write_instead() -> None:
    with pytest.raises(ValueError, match=re.escape("write 10.0.0.0/8")):
        parse_allowed("10.1.2.3/8")
