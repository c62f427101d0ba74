"""Whose address a request comes from: the peer's, or, behind proxies that are trusted, the one they passed on. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from app.config import Network

Address = IPv4Address | IPv6Address
UNKNOWN = "unknown"


def client_address(peer: str | None, forwarded_for: Iterable[str], trusted: Sequence[Network]) -> str:
    """The address nearest to us that is not one of our own proxies.

    `forwarded_for` holds the X-Forwarded-For headers in their order. They are read from the right, because each proxy adds
    at the right what it saw itself: what stands left of the first untrusted address was written by a stranger. Something
    that is no address ends the reading too, with the proxy that passed it on. Without `trusted` the headers are not read.
    A peer without an address (a Unix socket) is a proxy of this machine, and counts as trusted when there are any.
    """
    nearest = _parse(peer or "")
    if not trusted or (nearest is not None and not _is_one_of(nearest, trusted)):
        return UNKNOWN if nearest is None else str(nearest)
    for part in reversed(",".join(forwarded_for).split(",")):
        address = _parse(part)
        if address is None:
            break
        nearest = address
        if not _is_one_of(address, trusted):
            break
    return UNKNOWN if nearest is None else str(nearest)


def throttled_as(address: str) -> str:
    """What failures of this address are counted under: an IPv6 address's /64, since whoever has one has all of them."""
    parsed = _parse(address)
    if isinstance(parsed, IPv6Address):
        return str(ip_network((parsed, 64), strict=False).network_address)
    return address


def _is_one_of(address: Address, networks: Sequence[Network]) -> bool:
    return any(address in network for network in networks)


def _parse(text: str) -> Address | None:
    """The address in one entry, with or without a port or brackets; IPv4 mapped into IPv6 is IPv4. None: it is none."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
