"""One call under way: a claim, the libcurl handle that carries it, and what libcurl asks on the way. Used again and again."""

from __future__ import annotations

import _socket
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pycurl
import structlog

from app.attempts import Answer, Claim
from app.callback_url import Target, address_verdict
from app.callbacks.outcome import BLOCKED, CLOSED_EARLY, Ending, judge_answer, judge_failure
from app.callbacks.proxy import PROXY_WANTS_CREDENTIALS, judge_proxy_failure, proxy_refusal
from app.callbacks.request import clear, fill, open_handle
from app.callbacks.response import Response
from app.config import Settings

logger = structlog.get_logger()


class _Handed(_socket.socket):
    """A socket on its way to libcurl, which takes a duplicate: this one is closed as soon as nobody looks at it.

    Of the C module: in a process of web, the socket of `socket` is gevent's.
    """

    def __del__(self) -> None:
        self.close()


class Call:
    """A handle and the state of the claim it carries now.

    `is_held` says that the worker might no longer send when the connection stood (C17): nothing was sent. `sends`
    counts what was put on the wire: libcurl asks before each send, and gets one (C18).
    """

    __slots__ = (
        "_allowed",
        "_blocked",
        "_is_proxied",
        "_is_repeated",
        "_looked_up_seconds",
        "_may_send",
        "_response",
        "_socket_errno",
        "began",
        "claim",
        "curl",
        "is_held",
        "sends",
        "started_at",
        "target",
    )

    claim: Claim
    target: Target
    started_at: datetime
    began: float

    def __init__(self, settings: Settings, may_send: Callable[[], bool]) -> None:
        self._allowed = settings.allowed_callback_cidrs
        self._is_proxied = settings.egress_proxy is not None
        self._may_send = may_send
        self._response = Response()
        self.curl = open_handle(settings)
        self.curl.call = self
        self.curl.setopt(pycurl.HEADERFUNCTION, self._response.on_header)
        self.curl.setopt(pycurl.WRITEFUNCTION, self._response.on_body)
        self.curl.setopt(pycurl.PREREQFUNCTION, self._before_send)
        self.curl.setopt(pycurl.OPENSOCKETFUNCTION, self._open_socket)

    def begin(self, claim: Claim, target: Target, started_at: datetime) -> None:
        """The call begins, and its deadline with it."""
        self.claim, self.target, self.started_at = claim, target, started_at
        self.began = time.monotonic()
        self.sends = 0
        self.is_held = self._is_repeated = False
        self._blocked: str | None = None
        self._socket_errno = 0
        self._looked_up_seconds: float | None = None
        self._response.reset()

    @property
    def deadline(self) -> float:
        return self.began + self.claim.timeout_seconds

    @property
    def lookup_deadline(self) -> float:
        """Behind an egress proxy, which looks names up itself, half of the time is left for the call."""
        return self.began + self.claim.timeout_seconds / (2 if self._is_proxied else 1)

    def arm(self, addresses: Sequence[str]) -> None:
        """Makes the handle ready to be added. Raises ValueError or UnicodeError for a claim that cannot be sent."""
        elapsed = time.monotonic() - self.began
        if self.target.address is None:
            self._looked_up_seconds = elapsed
        remaining_ms = round((self.claim.timeout_seconds - elapsed) * 1000)
        used = () if self._is_proxied else addresses
        fill(self.curl, self.claim, self.target, used, int(self.started_at.timestamp()), remaining_ms)

    def answer(self, code: int, message: str) -> Answer:
        """What the call came to, once libcurl is done with it. `code` 0 means that the transfer was complete."""
        error_class, error = self._judge(code, message)
        response = self._response
        timings, total = self._timings()
        return Answer(
            started_at=self.started_at,
            finished_at=self.started_at + timedelta(milliseconds=total),
            status_code=response.status,
            error_class=error_class,
            error=error,
            timings=timings,
            response_headers=response.headers(),
            response_body=response.body_text(),
            response_truncated=response.is_longer_than_stored or (response.status is not None and code != 0),
        )

    def failure(self, error_class: str, error: str) -> Answer:
        """The outcome of a call that ends now without libcurl: a name that is not found, a stop, a fault."""
        total = (time.monotonic() - self.began) * 1000
        return failure(self.started_at, error_class, error, total)

    def release(self) -> None:
        """After the claim is answered or handed back: keeps nothing large alive."""
        clear(self.curl, self.claim)
        self._response.reset()

    def _judge(self, code: int, message: str) -> tuple[str | None, str | None]:
        response = self._response
        if response.status is not None:
            if self._is_proxied and response.status == PROXY_WANTS_CREDENTIALS:
                return "connect", proxy_refusal(response.status)
            location = response.header("Location") if 300 <= response.status < 400 else None
            return judge_answer(self.claim, response.status, location)
        if self._blocked is not None:
            return "blocked", BLOCKED.format(reason=self._blocked)
        if self._is_repeated:
            return "protocol", CLOSED_EARLY
        os_errno = self.curl.getinfo(pycurl.OS_ERRNO) or self._socket_errno
        ending = Ending(code, message, os_errno, is_connected=self.sends > 0)
        if self._is_proxied and not ending.is_connected:
            answered = self.curl.getinfo(pycurl.HTTP_CONNECTCODE)
            if (failed := judge_proxy_failure(self.claim, ending, answered)) is not None:
                return failed
        return judge_failure(self.claim, response, ending)

    def _timings(self) -> tuple[dict[str, float], float]:
        """({name: ms since the call began, for each point that was reached}, ms in total)."""
        curl = self.curl
        before = (self._looked_up_seconds or 0.0) * 1000
        total = round(before + curl.getinfo(pycurl.TOTAL_TIME) * 1000, 3)
        timings: dict[str, float] = {}
        if self._looked_up_seconds is not None:
            timings["dns"] = round(before, 3)
        for name, point in _POINTS:
            seconds = curl.getinfo(point)
            if seconds > 0:
                timings[name] = round(before + seconds * 1000, 3)
        timings["total"] = total
        return timings, total

    def _before_send(self, *_where: Any) -> int:
        if self.sends:
            self._is_repeated = True
            return int(pycurl.PREREQFUNC_ABORT)
        # A crash from here on leaves an attempt that counts as sent, whether or not its bytes went out.
        if not self._may_send():
            self.is_held = True
            return int(pycurl.PREREQFUNC_ABORT)
        self.sends = 1
        return int(pycurl.PREREQFUNC_OK)

    def _open_socket(self, _purpose: int, address: Any) -> Any:
        """libcurl asks for a socket to the very address it is about to connect to: the last check."""
        family, kind, protocol, where = address
        try:
            # Through a proxy it is the proxy's address, which the operator chose.
            verdict = None if self._is_proxied else address_verdict(where[0], self._allowed)
            if verdict is None:
                return _Handed(family, kind, protocol)
            self._blocked = verdict
        except OSError as error:  # no such family here, or no descriptors left: the call ends as a failed connection
            self._socket_errno = error.errno or 0
        except Exception:
            logger.exception("socket not opened", job_id=str(self.claim.job_id))
        return pycurl.SOCKET_BAD


_POINTS = (
    ("connect", pycurl.CONNECT_TIME),
    ("tls", pycurl.APPCONNECT_TIME),
    ("first_byte", pycurl.STARTTRANSFER_TIME),
)


def failure(started_at: datetime, error_class: str, error: str, total_ms: float = 0.0) -> Answer:
    """An outcome without an answer."""
    total = round(total_ms, 3)
    return Answer(
        started_at=started_at,
        finished_at=started_at + timedelta(milliseconds=total),
        error_class=error_class,
        error=error,
        timings={"total": total},
    )
