"""The session's cookie: out of scripts' reach, not sent along from other sites, and over TLS only where there is TLS."""

from __future__ import annotations

from datetime import timedelta
from ipaddress import ip_address

from flask import Flask, has_request_context, request
from flask.sessions import SecureCookieSessionInterface

from app.current import settings

SESSION_LIFETIME = timedelta(days=14)


def register(app: Flask) -> None:
    app.session_interface = TlsAwareSessions()
    app.config.update(
        SESSION_COOKIE_NAME="punctual_session",
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Lax",
        PERMANENT_SESSION_LIFETIME=SESSION_LIFETIME,
        # A form that stood open overnight still works: its token is good as long as the session.
        WTF_CSRF_TIME_LIMIT=None,
    )


class TlsAwareSessions(SecureCookieSessionInterface):
    """Flask's signed cookies, marked Secure when the browser speaks TLS to us or to a proxy that we trust."""

    def get_cookie_secure(self, app: Flask) -> bool:
        return is_behind_tls()


def is_behind_tls() -> bool:
    """Whether the browser's side of this request is encrypted, as this process or a trusted proxy saw it."""
    if not has_request_context():
        return False
    if request.is_secure:
        return True
    return _comes_from_trusted_proxy() and request.headers.get("X-Forwarded-Proto", "").strip().lower() == "https"


def _comes_from_trusted_proxy() -> bool:
    try:
        peer = ip_address(request.remote_addr or "")
    except ValueError:
        return bool(settings().trusted_proxies)
    peer = getattr(peer, "ipv4_mapped", None) or peer
    return any(peer in network for network in settings().trusted_proxies)
