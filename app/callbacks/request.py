"""Builds the request of one attempt: a claim becomes the options of a libcurl handle."""

from __future__ import annotations

import ssl
import string
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

import certifi
import pycurl

from app.attempts import USER_AGENT_PRODUCT, Claim
from app.callback_url import Target
from app.config import EgressProxy, Settings
from app.signing import sign
from app.traceparent import HEADER
from app.version import VERSION

# Where systems keep the certificates they trust, for a libcurl that was built elsewhere.
SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
# Servers close idle connections after 2 s (gunicorn), 5 s (Node) or later. A request that meets such a close is a lost
# attempt (C18), so a connection that has been idle for longer than this is not used again.
MAX_IDLE_CONNECTION_SECONDS = 1
# A busy connection is renewed now and then, so that a changed address takes effect.
MAX_CONNECTION_SECONDS = 300
MAX_TIMEOUT_MS = 900_000
# A small body is not worth the call that takes it off an idle handle.
SMALL_BODY_BYTES = 4096

# CURLOPT_SUPPRESS_CONNECT_HEADERS, which pycurl has no name for.
_SUPPRESS_CONNECT_HEADERS = 265
_FORBIDDEN_IN_HEADERS = frozenset("\r\n\0")
_PRINTABLE = string.ascii_letters + string.digits + string.punctuation + " "
# libcurl adds headers of its own unless they are named without a value.
_OWN_LINES = ("Expect:", "Accept:", f"User-Agent: {USER_AGENT_PRODUCT}/{VERSION}")


def open_handle(settings: Settings) -> pycurl.Curl:
    """A handle with what all calls have in common: HTTP/1.1 to where we say, and nothing taken from the environment."""
    curl = pycurl.Curl()
    curl.setopt(pycurl.NOSIGNAL, 1)
    curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
    curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
    curl.setopt(pycurl.FOLLOWLOCATION, 0)
    curl.setopt(pycurl.HTTP09_ALLOWED, 0)
    curl.setopt(pycurl.PATH_AS_IS, 1)
    _set_proxy(curl, settings.egress_proxy)
    curl.setopt(pycurl.NETRC, pycurl.NETRC_IGNORED)
    curl.setopt(pycurl.CAINFO, trusted_certificates(settings))
    curl.setopt(pycurl.SSL_VERIFYPEER, 1)
    curl.setopt(pycurl.SSL_VERIFYHOST, 2)
    curl.setopt(pycurl.TCP_NODELAY, 1)
    curl.setopt(pycurl.CONNECTTIMEOUT_MS, MAX_TIMEOUT_MS)
    curl.setopt(pycurl.MAXAGE_CONN, MAX_IDLE_CONNECTION_SECONDS)
    curl.setopt(pycurl.MAXLIFETIME_CONN, MAX_CONNECTION_SECONDS)
    return curl


def _set_proxy(curl: pycurl.Curl, proxy: EgressProxy | None) -> None:
    # Both are set in any case: what is not set is taken from the environment.
    curl.setopt(pycurl.NOPROXY, "")
    curl.setopt(pycurl.PROXY, "" if proxy is None else f"http://{_bracketed(proxy.host)}:{proxy.port}")
    if proxy is None:
        return
    # Else the proxy's answer to CONNECT would pass for the receiver's.
    curl.setopt(_SUPPRESS_CONNECT_HEADERS, 1)
    curl.setopt(pycurl.HEADEROPT, pycurl.HEADER_SEPARATE)
    if proxy.user is not None:
        curl.setopt(pycurl.PROXYUSERNAME, proxy.user.encode())
        curl.setopt(pycurl.PROXYPASSWORD, (proxy.password or "").encode())


def fill(
    curl: pycurl.Curl, claim: Claim, target: Target, addresses: Sequence[str], timestamp: int, timeout_ms: int
) -> None:
    """Sets the options of one attempt on a handle that may have served another.

    `addresses` are those the host name resolved to (none for a literal address, and behind a proxy); `timestamp` is in
    whole Unix seconds.
    Raises ValueError for a claim that cannot be sent (a header with a line break, a signing secret that is none).
    """
    lines = header_lines(claim, timestamp)
    curl.setopt(pycurl.URL, target.url)
    curl.setopt(pycurl.TIMEOUT_MS, max(1, min(timeout_ms, MAX_TIMEOUT_MS)))
    if claim.body is None and claim.method in ("GET", "DELETE"):
        curl.setopt(pycurl.HTTPGET, 1)
    else:
        # Empty where there is none: a POST without Content-Length is refused by many servers.
        curl.setopt(pycurl.POSTFIELDS, claim.body or b"")
    curl.setopt(pycurl.CUSTOMREQUEST, claim.method)
    curl.setopt(pycurl.HTTPHEADER, lines)
    if addresses:
        # The plus lets libcurl forget the entry; without it each name ever called would stay.
        curl.setopt(pycurl.RESOLVE, [f"+{target.host}:{target.port}:{','.join(map(_bracketed, addresses))}"])
    else:
        curl.unsetopt(pycurl.RESOLVE)


def clear(curl: pycurl.Curl, claim: Claim) -> None:
    """Lets go of a large body, which a handle would otherwise keep until it is used again."""
    if claim.body is not None and len(claim.body) > SMALL_BODY_BYTES:
        curl.setopt(pycurl.POSTFIELDS, b"")


def header_lines(claim: Claim, timestamp: int) -> list[str | bytes]:
    """The header lines of an attempt, in libcurl's form: `Name:` removes one, `Name;` sends it empty."""
    job_id = str(claim.job_id)
    lines: list[str | bytes] = [
        *_OWN_LINES,
        f"Idempotency-Key: {job_id}",
        f"webhook-id: {job_id}",
        f"webhook-timestamp: {timestamp}",
        f"X-Job-ID: {job_id}",
        f"X-Job-Type: {_job_type(claim.type)}",
        f"X-Job-Attempt: {claim.attempt}",
        f"X-Job-Max-Attempts: {claim.max_attempts}",
    ]
    if claim.signing_secrets:
        lines.append(f"webhook-signature: {sign(claim.signing_secrets, job_id, timestamp, claim.body or b'')}")
    if claim.body is None or claim.content_type is None:
        lines.append("Content-Type:")
    else:
        lines.append(_line("Content-Type", claim.content_type))
    lines.extend(_line(name, value) for name, value in claim.headers)
    if claim.traceparent is not None and not any(name.lower() == HEADER for name, _ in claim.headers):
        lines.append(f"{HEADER}: {claim.traceparent}")
    return lines


def _line(name: str, value: str) -> str | bytes:
    if not _FORBIDDEN_IN_HEADERS.isdisjoint(name) or not _FORBIDDEN_IN_HEADERS.isdisjoint(value):
        raise ValueError(f"The header {name[:60]!r} holds a line break or a NUL.")
    if not value.strip(" \t"):
        return f"{name};"
    return f"{name}: {value}".encode("latin-1")


@lru_cache(maxsize=4096)
def _job_type(text: str) -> str:
    """Percent-encoded (as UTF-8) where not printable ASCII, and a blank at an end, which HTTP would drop."""
    encoded = quote(text, safe=_PRINTABLE)
    kept = encoded.strip(" ")
    start = len(encoded) - len(encoded.lstrip(" "))
    return "%20" * start + kept + "%20" * (len(encoded) - start - len(kept))


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


@lru_cache(maxsize=8)
def trusted_certificates(settings: Settings) -> str:
    """The bundle TLS is verified with: the configured one, else the system's, else the one that came with certifi."""
    own = ssl.get_default_verify_paths().openssl_cafile
    places = (settings.ca_bundle, own, *SYSTEM_BUNDLES)
    return next((place for place in places if place and Path(place).is_file()), certifi.where())
