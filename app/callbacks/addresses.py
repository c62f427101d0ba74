"""What a host name resolves to, and whether a callback may go there: every address is checked."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from app.callback_url import address_verdict
from app.callbacks.outcome import BLOCKED
from app.special_networks import Networks

logger = structlog.get_logger()

# More than any real receiver has; libcurl tries them one after the other.
MAX_ADDRESSES = 8

Lookup = Callable[..., list[Any]]


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a name resolved to: every address as text, or the sentence that says why there is none."""

    addresses: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """The addresses a call may go to, or the error class and sentence it ends with."""

    addresses: tuple[str, ...] = ()
    error_class: str | None = None
    error: str | None = None


# Of a call that needs no lookup.
NO_LOOKUP = Finding()


def look_up(host: str, lookup: Lookup) -> Resolution:
    """Asks the system's resolver, and waits for it. Never raises."""
    try:
        found = lookup(host, None, type=socket.SOCK_STREAM)
        addresses = tuple(dict.fromkeys(str(entry[4][0]) for entry in found))
    except OSError as error:
        return Resolution(error=f"The host name could not be looked up: {error.strerror or 'no answer'}.")
    except Exception:  # the standard library's codec, for one, raises UnicodeError for names it does not take
        logger.exception("lookup failed", host=host)
        return Resolution(error="The host name could not be looked up.")
    return Resolution(addresses) if addresses else Resolution(error="The host name has no address.")


def checked(resolution: Resolution, allowed: Networks, is_proxied: bool) -> Finding:
    """Where a call may go by what its host name resolves to here.

    Behind an egress proxy, which looks names up itself, one that does not resolve here is let pass; the addresses of one
    that does are checked all the same, and not used.
    """
    if resolution.error is not None:
        return NO_LOOKUP if is_proxied else Finding(error_class="dns", error=resolution.error)
    for address in resolution.addresses:
        # One that may not be called spoils the answer: whoever mixes them is choosing which one we meet.
        if (reason := address_verdict(address, allowed)) is not None:
            return Finding(error_class="blocked", error=BLOCKED.format(reason=reason))
    return Finding(resolution.addresses[:MAX_ADDRESSES])
