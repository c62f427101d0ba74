"""The networks no callback may reach unless an operator opens them, written out row by row.

The standard library's flags (is_private, is_global) differ from release to release, so none of them is used.
Sources: IANA's IPv4 and IPv6 Special-Purpose Address Registries (as of 2025-10-09), every row, those it calls globally
reachable too: they are anycast services and translators, never a receiver. Below each registry stand our additions.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Networks = tuple[Network, ...]

# What each network is: the words end up in messages, after "it points to".
SPECIAL_IPV4: tuple[tuple[str, str], ...] = (
    ("0.0.0.0/8", "this network"),
    ("0.0.0.0/32", "the unspecified address"),
    ("10.0.0.0/8", "a private network"),
    ("100.64.0.0/10", "a carrier's shared network"),
    ("127.0.0.0/8", "a loopback address"),
    ("169.254.0.0/16", "a link-local address"),
    ("172.16.0.0/12", "a private network"),
    ("192.0.0.0/24", "a network of IETF protocols"),
    ("192.0.0.0/29", "an IPv4 service continuity address"),
    ("192.0.0.8/32", "the IPv4 dummy address"),
    ("192.0.0.9/32", "an anycast address of the Port Control Protocol"),
    ("192.0.0.10/32", "a TURN anycast address"),
    ("192.0.0.170/32", "a NAT64 discovery address"),
    ("192.0.0.171/32", "a NAT64 discovery address"),
    ("192.0.2.0/24", "a network for documentation"),
    ("192.31.196.0/24", "an AS112 service"),
    ("192.52.193.0/24", "an AMT relay"),
    ("192.88.99.0/24", "a 6to4 relay"),
    ("192.88.99.2/32", "a 6a44 relay"),
    ("192.168.0.0/16", "a private network"),
    ("192.175.48.0/24", "an AS112 service"),
    ("198.18.0.0/15", "a network for benchmarks"),
    ("198.51.100.0/24", "a network for documentation"),
    ("203.0.113.0/24", "a network for documentation"),
    ("240.0.0.0/4", "a reserved network"),
    ("255.255.255.255/32", "the broadcast address"),
    # Not in the registry.
    ("224.0.0.0/4", "a multicast address"),
    ("168.63.129.16/32", "a cloud platform's own address"),
)

# An address that embeds an IPv4 one needs no decoding: its whole network is refused, whatever it embeds.
SPECIAL_IPV6: tuple[tuple[str, str], ...] = (
    ("::1/128", "a loopback address"),
    ("::/128", "the unspecified address"),
    ("::ffff:0:0/96", "an IPv4-mapped address"),
    ("64:ff9b::/96", "a NAT64 address"),
    ("64:ff9b:1::/48", "a local NAT64 address"),
    ("100::/64", "the discard network"),
    ("100:0:0:1::/64", "a dummy network"),
    ("2001::/23", "a network of IETF protocols"),
    ("2001::/32", "a Teredo address"),
    ("2001:1::1/128", "an anycast address of the Port Control Protocol"),
    ("2001:1::2/128", "a TURN anycast address"),
    ("2001:1::3/128", "a DNS-SD anycast address"),
    ("2001:2::/48", "a network for benchmarks"),
    ("2001:3::/32", "an AMT relay"),
    ("2001:4:112::/48", "an AS112 service"),
    ("2001:10::/28", "an ORCHID identifier"),
    ("2001:20::/28", "an ORCHIDv2 identifier"),
    ("2001:30::/28", "a drone identifier"),
    ("2001:db8::/32", "a network for documentation"),
    ("2002::/16", "a 6to4 address"),
    ("2620:4f:8000::/48", "an AS112 service"),
    ("3fff::/20", "a network for documentation"),
    ("5f00::/16", "a segment routing identifier"),
    ("fc00::/7", "a private network"),
    ("fe80::/10", "a link-local address"),
    # Not in the registry.
    ("::/96", "an IPv4-compatible address"),
    ("::ffff:0:0:0/96", "an IPv4-translated address"),
    ("fec0::/10", "a site-local address"),
    ("ff00::/8", "a multicast address"),
)


def _ranges(rows: tuple[tuple[str, str], ...]) -> tuple[tuple[int, int, str], ...]:
    """(first, last, what) as integers, the narrowest network first, so that its words are the ones told."""
    networks = sorted(
        ((ip_network(cidr), what) for cidr, what in rows),
        key=lambda row: -row[0].prefixlen,
    )
    return tuple((int(network.network_address), int(network.broadcast_address), what) for network, what in networks)


_RANGES = {4: _ranges(SPECIAL_IPV4), 6: _ranges(SPECIAL_IPV6)}


def what_is(address: Address) -> str | None:
    """What a special address is, in words that name neither it nor its network; None for an ordinary public one."""
    number = int(address)
    for first, last, what in _RANGES[address.version]:
        if first <= number <= last:
            return what
    return None
