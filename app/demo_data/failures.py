"""The ways in which made-up calls fail, in the words that a worker has for them, and when a host fails. Pure."""

from __future__ import annotations

from dataclasses import dataclass

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """One way to fail. `took_ms`: between which times; `reached`: the last phase that the call got to."""

    error_class: str
    error: str
    took_ms: tuple[float, float]
    reached: str = "total"
    status_code: int | None = None
    headers: Headers = ()
    body: str = ""


@dataclass(frozen=True, slots=True)
class Spell:
    """From when to when (hours ago) a host fails, which share of its calls, and how. `sticks`: the share is one of jobs."""

    from_hours: float
    to_hours: float
    share: float
    failure: Failure
    sticks: bool = False


def _answered(status_code: int, phrase: str, body: str, headers: Headers = (), more: str = "") -> Failure:
    kind = "redirect" if status_code < 400 else "http_4xx" if status_code < 500 else "http_5xx"
    error = f"The receiver answered {status_code} {phrase}{more}."
    return Failure(kind, error, (15, 400), "total", status_code, headers, body)


DEMO_FAIL = Failure(
    "http_5xx", "The receiver answered 500 Internal Server Error.", (1, 9), "total", 500, (), '{"received": false}'
)
SERVER_ERROR = _answered(
    500, "Internal Server Error", '{"error":"internal","message":"unexpected end of stream while reading order"}'
)
BAD_GATEWAY = _answered(
    502,
    "Bad Gateway",
    "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n</body>\r\n</html>\r\n",
)
UNAVAILABLE = _answered(503, "Service Unavailable", "upstream is being deployed, try again\n", (("Retry-After", "4"),))
TOO_MANY = _answered(
    429,
    "Too Many Requests",
    '{"error":"rate_limited","limit":60,"window":"1m"}',
    (("Retry-After", "7"), ("X-RateLimit-Remaining", "0")),
)
UNPROCESSABLE = _answered(
    422, "Unprocessable Entity", '{"errors":[{"field":"amount","code":"invalid","detail":"must be greater than 0"}]}'
)
NOT_ALLOWED = _answered(
    401, "Unauthorized", '{"error":"token_expired"}', (("WWW-Authenticate", 'Bearer error="invalid_token"'),)
)
GONE = _answered(410, "Gone", "This endpoint was retired.\n")
MOVED = _answered(
    301,
    "Moved Permanently",
    "",
    (("Location", "https://images.pixelworks.example/v3/render"),),
    " with Location https://images.pixelworks.example/v3/render. Redirects are not followed",
)
TIMED_OUT = Failure("timeout", "No answer within 10 s.", (10_000.4, 10_003), "tls")
NOT_REACHED = Failure("timeout", "No connection within 10 s.", (10_000.4, 10_002), "dns")
REFUSED = Failure("connect", "The connection could not be made: connection refused.", (0.8, 4), "dns")
UNKNOWN_NAME = Failure("dns", "The host name could not be looked up.", (3, 60), "")
CERTIFICATE = Failure("tls", "TLS failed: SSL certificate problem: certificate has expired.", (18, 60), "connect")
CLOSED = Failure("protocol", "The connection closed before an answer.", (20, 900), "tls")
BLOCKED = Failure("blocked", "The address may not be called: it points to a private network.", (1, 12), "")
LOST = Failure(
    "lost",
    "The worker that made this call was lost: it is not known whether the receiver got it.",
    (12_100, 13_900),
    "",
)
