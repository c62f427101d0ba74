"""What every answer tells the browser: run nothing from elsewhere or inline, be framed by nobody, guess no types."""

from __future__ import annotations

from flask import Flask, Response

# Bootstrap's stylesheet draws ticks and arrows from data: images; nothing else comes from outside a file of ours.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: the CSRF check asks for the referrer behind TLS.
    "Referrer-Policy": "same-origin",
}
PAGES = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    # A page that was seen while signed in is not shown again by the Back button after signing out.
    "Cache-Control": "no-store",
}


def register(app: Flask) -> None:
    app.after_request(add_headers)


def add_headers(response: Response) -> Response:
    """The strict headers, for every page; a view that has set one of them itself keeps it."""
    for name, value in ALWAYS.items():
        response.headers.setdefault(name, value)
    if response.mimetype == "text/html":
        for name, value in PAGES.items():
            response.headers.setdefault(name, value)
    return response
