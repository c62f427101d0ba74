"""Which URLs and which addresses a callback may go to.

Nothing here looks a name up. The same verdict is asked twice: at submit, of the URL and of what its name resolves to,
and at delivery, of the very address that is connected to. URL readers disagree on the odd ones (browsers turn
`http://0x7f.1` into 127.0.0.1, some take what stands before a backslash for the host), so whatever two of them could
read differently is refused rather than interpreted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import idna

from app.special_networks import Address, Network, Networks, what_is

MAX_URL_LENGTH = 2048
MAX_NAME_LENGTH = 253
DEFAULT_PORTS = {"http": 80, "https": 443}
REFUSED_NAMES = ("localhost", "local", "internal", "localdomain", "home.arpa")

_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\]")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = re.compile(rf"{_BYTE}(?:\.{_BYTE}){{3}}")
# Every spelling of an integer that some reader knows: 127, 0177, 0x7f, 0x, 0o177, 0b1, 1_0.
_NUMBER = re.compile(r"[0-9][0-9_]*|0x[0-9a-f_]*|0o[0-7_]*|0b[01_]*")
_IPV6_TEXT = re.compile(r"[0-9A-Fa-f:.]+")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_CIDR = re.compile(r"[0-9A-Fa-f:.]+(?:/[0-9]{1,3})?")
_LOOPBACK: tuple[Address, ...] = (IPv4Address("127.0.0.1"), IPv6Address("::1"))


class CallbackUrlRefused(ValueError):
    """A URL that may not be called. The message is a sentence for whoever gave it, and never quotes the URL."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a callback goes. `url` is what is sent: its host in lower-case ASCII, without a final dot.

    `host` has no brackets. `address` is set when the host is a literal address. `key` is what limits per host count by.
    """

    url: str
    scheme: str
    host: str
    port: int
    address: Address | None = None

    @property
    def key(self) -> str:
        return f"{self.scheme}://{_bracketed(self.host)}:{self.port}"


def parse(url: str, allowed: Networks = ()) -> Target:
    """The target of `url`. Raises CallbackUrlRefused, and nothing else, for any text that may not be called.

    `allowed` are the networks the operator opened. A host name that passes still has to be looked up, and each address
    put to `address_verdict`.
    """
    if len(url) > MAX_URL_LENGTH:
        raise CallbackUrlRefused(f"The URL is too long: at most {MAX_URL_LENGTH} characters are taken.")
    scheme, authority, rest = _split(url)
    host_text, port_text = _split_port(authority)
    port = _port(port_text, scheme)
    host, address = _literal_ipv6(host_text) if host_text.startswith("[") else _name_or_ipv4(host_text, allowed)
    if address is not None and (reason := address_verdict(address, allowed)) is not None:
        raise CallbackUrlRefused(
            f"The URL's host may not be called: {reason}. Use a public address, "
            "or ask the operator to open its network with ALLOWED_CALLBACK_CIDRS."
        )
    port_suffix = "" if port_text is None else f":{port}"
    sent = f"{scheme}://{_bracketed(host)}{port_suffix}{rest}"
    if len(sent) > MAX_URL_LENGTH:
        raise CallbackUrlRefused(f"The URL is too long in ASCII: at most {MAX_URL_LENGTH} characters are taken.")
    return Target(url=sent, scheme=scheme, host=host, port=port, address=address)


def address_verdict(address: str | Address, allowed: Networks = ()) -> str | None:
    """None when this address may be called, else why not, in words that do not name it (safe to show a tenant).

    An IPv6 address that embeds an IPv4 one is refused unless an IPv6 network that holds it is opened: opening
    10.0.0.0/8 does not open ::ffff:10.0.0.1. Text that is no address, or has a zone id, is refused.
    """
    parsed, what = _classify(address)
    if what is None:
        return None
    if parsed is not None and any(parsed in network for network in allowed):
        return None
    return what


def parse_allowed(text: str) -> Networks:
    """The networks of a setting such as `10.0.0.0/8, ::1`: commas or spaces between, an address alone is a network.

    Empty text and `none` are no networks. Raises ValueError that names the part it cannot take.
    """
    parts = text.replace(",", " ").split()
    return () if parts == ["none"] else tuple(_network(part) for part in parts)


def _network(part: str) -> Network:
    if _CIDR.fullmatch(part) is None:
        raise ValueError(f"{part!r} is not a network: write it as 10.0.0.0/8 or fd00::/8.")
    try:
        return ip_network(part)
    except ValueError:
        pass
    try:
        wider = ip_network(part, strict=False)
    except ValueError:
        raise ValueError(f"{part!r} is not a network: write it as 10.0.0.0/8 or fd00::/8.") from None
    raise ValueError(f"{part!r} has bits set beyond its prefix: write {wider}, or the address alone.")


# Called for every connection: one receiver's few addresses come again and again.
@lru_cache(maxsize=16_384)
def _classify(address: str | Address) -> tuple[Address | None, str | None]:
    """The parsed address (None when it is none), and what makes it special (None when nothing does)."""
    if isinstance(address, str):
        try:
            address = ip_address(address)
        except ValueError:
            return None, "it is not an IP address"
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return None, "it has a zone id"
    what = what_is(address)
    return address, None if what is None else f"it points to {what}"


def _split(url: str) -> tuple[str, str, str]:
    """(scheme, authority, path and query), refusing what could move the borders between them."""
    if not url:
        raise CallbackUrlRefused("The URL is empty: give one that begins with https:// or http://.")
    if _FORBIDDEN.search(url):
        raise CallbackUrlRefused("The URL holds a space, a backslash or a control character: percent-encode it.")
    scheme, separator, after = url.partition("://")
    if not separator or not scheme.isascii() or scheme.lower() not in DEFAULT_PORTS:
        raise CallbackUrlRefused("The URL must begin with https:// or http://.")
    if "#" in after:
        raise CallbackUrlRefused("The URL has a fragment (#…), which is never sent: leave it out, or write %23 for #.")
    end = min((at for at in map(after.find, "/?") if at >= 0), default=len(after))
    authority, rest = after[:end], after[end:]
    if not rest.isascii():
        raise CallbackUrlRefused("The URL's path or query holds a character outside ASCII: percent-encode it.")
    if not authority:
        raise CallbackUrlRefused("The URL has no host: write it as https://host/path.")
    if "@" in authority:
        raise CallbackUrlRefused("The URL may not hold a user name or password: send credentials in a header.")
    # Old readers looked for the host's end at a slash only.
    return scheme.lower(), authority, f"/{rest}" if rest.startswith("?") else rest


def _split_port(authority: str) -> tuple[str, str | None]:
    if authority.startswith("["):
        host, bracket, after = authority.partition("]")
        if not bracket or (after and not after.startswith(":")):
            raise CallbackUrlRefused(
                "The URL's IPv6 address is not closed properly: write it as http://[address]:port/."
            )
        return host + bracket, after[1:] if after else None
    host, colon, port = authority.partition(":")
    return host, port if colon else None


def _port(text: str | None, scheme: str) -> int:
    if text is None:
        return DEFAULT_PORTS[scheme]
    if _PORT.fullmatch(text) is None or int(text) > 65_535:
        raise CallbackUrlRefused("The URL's port must be a plain number from 1 to 65535.")
    return int(text)


def _literal_ipv6(bracketed: str) -> tuple[str, IPv6Address]:
    text = bracketed[1:-1]
    # The pattern keeps zone ids and the future's [v1.…] form out.
    if _IPV6_TEXT.fullmatch(text) is not None:
        try:
            address = IPv6Address(text)
        except ValueError:
            pass
        else:
            return str(address), address
    raise CallbackUrlRefused("The URL's host in brackets is not an IPv6 address (zone ids are not taken).")


def _name_or_ipv4(text: str, allowed: Networks) -> tuple[str, IPv4Address | None]:
    name = _ascii_name(text)
    if _IPV4.fullmatch(name):
        return name, IPv4Address(name)
    name = name.removesuffix(".")
    labels = name.split(".")
    if len(name) > MAX_NAME_LENGTH or not all(map(_LABEL.fullmatch, labels)):
        raise CallbackUrlRefused(
            f"The URL's host is not a valid name: at most {MAX_NAME_LENGTH} characters, in labels of 1 to 63 letters, "
            "digits, underscores and hyphens, with no hyphen at an end of a label."
        )
    if _is_number(labels[-1]):
        raise CallbackUrlRefused("The URL's host ends in a number but is not an IPv4 address of four plain decimals.")
    is_opened = name == "localhost" and any(address in network for address in _LOOPBACK for network in allowed)
    if not is_opened and any(name == refused or name.endswith(f".{refused}") for refused in REFUSED_NAMES):
        raise CallbackUrlRefused("The URL's host is a name of a private network: use a public host name.")
    return name, None


def _is_number(label: str) -> bool:
    """Whether some reader may take this label for a number; other scripts' digits count (int() reads them)."""
    return _NUMBER.fullmatch(label) is not None or (label.startswith("xn--") and idna.decode(label).isnumeric())


def _ascii_name(text: str) -> str:
    """The host in lower-case ASCII. International names count as they stand: no mapping may turn ① into 1.

    Names that are ASCII already have their `xn--` labels checked the same way. Only ASCII is lower-cased by us, since
    lower-casing the Kelvin sign gives a k.
    """
    if text.isascii():
        name = text.lower()
        international = [label for label in name.split(".") if label.startswith("xn--")]
    else:
        name, international = text, [text]
    # A name this long is refused anyway, and its encoding would only cost time.
    if len(name) <= MAX_NAME_LENGTH + 1:
        try:
            encoded = [idna.encode(part, strict=True, uts46=False).decode("ascii") for part in international]
        except UnicodeError:  # idna.IDNAError is one
            raise CallbackUrlRefused(
                "The URL's host is not a valid international name: write it in lower case with plain dots, "
                "or in its xn-- form."
            ) from None
        if not text.isascii():
            name = encoded[0]
    return name


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
