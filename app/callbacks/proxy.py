"""Judges a call that the egress proxy did not let through: whose fault it was, without a word of where the proxy is."""

from __future__ import annotations

import pycurl

from app.attempts import Claim
from app.callbacks.outcome import TLS_CODES, Ending, because, phrase

PROXY_WANTS_CREDENTIALS = 407
# CURLE_PROXY, which pycurl has no name for.
_PROXY_HANDSHAKE = 97


def proxy_refusal(status: int) -> str:
    return f"The egress proxy failed: it answered {status}{phrase(status)}."


def judge_proxy_failure(claim: Claim, ending: Ending, answered: int) -> tuple[str, str] | None:
    """(error class, error) of a call that was never sent; None when the proxy is not to blame.

    `answered` is the proxy's status for the tunnel, 0 when it gave none.
    """
    if ending.code == pycurl.E_OPERATION_TIMEDOUT:
        return "timeout", f"No connection through the egress proxy within {claim.timeout_seconds:g} s."
    if answered and not 200 <= answered < 300:
        return "connect", proxy_refusal(answered)
    if answered or ending.code in TLS_CODES:
        return None
    if ending.code == pycurl.E_COULDNT_RESOLVE_PROXY:
        return "connect", "The egress proxy failed: its host name could not be looked up."
    if ending.code == pycurl.E_COULDNT_CONNECT:
        return "connect", f"The egress proxy failed: it could not be connected to{because(ending.os_errno)}."
    if ending.code in (pycurl.E_RECV_ERROR, pycurl.E_SEND_ERROR, pycurl.E_GOT_NOTHING, _PROXY_HANDSHAKE):
        return "connect", f"The egress proxy failed: it closed the connection{because(ending.os_errno)}."
    return "connect", "The egress proxy failed: what it answered is not valid."
