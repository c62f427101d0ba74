"""Judges one call: which error class an answer, or the lack of one, has, and the sentence that says so."""

from __future__ import annotations

import os
from dataclasses import dataclass
from http import HTTPStatus

import pycurl

from app.attempts import Claim
from app.callbacks.response import MAX_HEADER_BYTES, Response

MAX_ERROR_CHARACTERS = 500
MAX_LOCATION_CHARACTERS = 300

BLOCKED = "The address may not be called: {reason}."
CLOSED_EARLY = "The connection closed before an answer."
LOST = "The worker stopped before an answer came. The receiver may have had the request."
WORKER_FAULT = "The worker failed on this call; its log has the details."

TLS_CODES = frozenset(
    {
        pycurl.E_SSL_CONNECT_ERROR,
        pycurl.E_SSL_CERTPROBLEM,
        pycurl.E_SSL_CIPHER,
        pycurl.E_PEER_FAILED_VERIFICATION,
        pycurl.E_USE_SSL_FAILED,
        pycurl.E_SSL_CACERT_BADFILE,
        pycurl.E_SSL_ISSUER_ERROR,
        pycurl.E_SSL_CRL_BADFILE,
        pycurl.E_SSL_PINNEDPUBKEYNOTMATCH,
        pycurl.E_SSL_INVALIDCERTSTATUS,
    }
)


@dataclass(frozen=True, slots=True)
class Ending:
    """How libcurl says a transfer ended: its code (0: completely), its words, the system's errno, and how far it got."""

    code: int
    message: str
    os_errno: int
    is_connected: bool


def judge_answer(claim: Claim, status: int, location: str | None) -> tuple[str | None, str | None]:
    """(error class, error) of a complete answer; both None when its status is among those the job takes as success."""
    if any(first <= status <= last for first, last in claim.success_statuses):
        return None, None
    said = f"The receiver answered {status}{phrase(status)}"
    if 300 <= status < 400:
        if location is None:
            return "redirect", f"{said}. Redirects are not followed."
        return "redirect", f"{said} with Location {location[:MAX_LOCATION_CHARACTERS]}. Redirects are not followed."
    if 400 <= status < 500:
        return "http_4xx", f"{said}."
    if 500 <= status < 600:
        return "http_5xx", f"{said}."
    return "protocol", f"{said}, which this job does not take as success."


def judge_failure(claim: Claim, response: Response, ending: Ending) -> tuple[str, str]:
    """(error class, error) of a call that got no complete answer. The sentence holds no address of ours."""
    if response.is_cut:
        return "protocol", f"The answer's headers are longer than {MAX_HEADER_BYTES // 1024} KB."
    code = ending.code
    if code == pycurl.E_OPERATION_TIMEDOUT:
        return (
            "timeout",
            f"{'No answer' if ending.is_connected else 'No connection'} within {claim.timeout_seconds:g} s.",
        )
    if code == pycurl.E_COULDNT_RESOLVE_HOST:
        return "dns", "The host name could not be looked up."
    if code == pycurl.E_COULDNT_CONNECT:
        return "connect", f"The connection could not be made{because(ending.os_errno)}."
    if code in TLS_CODES:
        return "tls", f"TLS failed: {ending.message.rstrip('.')}"[: MAX_ERROR_CHARACTERS - 1] + "."
    if code in (pycurl.E_OK, pycurl.E_GOT_NOTHING):
        return "protocol", CLOSED_EARLY
    if code in (pycurl.E_RECV_ERROR, pycurl.E_SEND_ERROR):
        return "protocol", f"The connection broke before an answer{because(ending.os_errno)}."
    return "protocol", "What came back is not a valid HTTP answer."


def lookup_timeout(claim: Claim) -> tuple[str, str]:
    """(error class, error) of a call whose host name was still being looked up at its deadline."""
    return "timeout", f"The host name was not looked up within {claim.timeout_seconds:g} s."


def phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""


def because(os_errno: int) -> str:
    return f": {os.strerror(os_errno).lower()}" if os_errno else ""
