"""Whether a callback_url may be taken: its text, and every address its host has at the moment."""

from __future__ import annotations

from app import callback_url
from app.api.lookup import Lookups
from app.callback_url import CallbackUrlRefused, Target
from app.current import settings
from app.errors import invalid

lookups = Lookups()


def take(url: str, field: str = "callback_url") -> Target:
    """Where the callback goes. Raises InvalidRequest that names `field`.

    A name that does not resolve within a second is taken: its receiver may not be up yet, and the delivery asks again.
    """
    allowed = settings().allowed_callback_cidrs
    try:
        target = callback_url.parse(url, allowed)
    except CallbackUrlRefused as error:
        raise invalid(field, str(error)) from None
    if target.address is None:
        for address in lookups.addresses(target.host):
            reason = callback_url.address_verdict(address, allowed)
            if reason is not None:
                raise invalid(
                    field,
                    f"The URL's host resolves to an address that may not be called: {reason}. Use a public address, "
                    "or ask the operator to open its network with ALLOWED_CALLBACK_CIDRS.",
                )
    return target
