"""One request to a callback's address, now, by the rules of a delivery. Nothing is stored, nothing is tried again."""

from __future__ import annotations

import time
from _socket import getaddrinfo  # of the C module: in a process of web, that of `socket` is gevent's
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import pycurl

from app.attempts import Answer, Claim
from app.callback import DEFAULT_METHOD, DEFAULT_TIMEOUT_SECONDS, SUCCESS_STATUSES, Headers, Statuses
from app.callback_url import CallbackUrlRefused, parse
from app.callbacks.addresses import NO_LOOKUP, Finding, Lookup, checked, look_up
from app.callbacks.call import Call, failure
from app.callbacks.outcome import lookup_timeout
from app.config import Settings
from app.ids import uuid7
from app.native_threads import NativeThreads

TRIAL_TYPE = "test"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRequest:
    """What is sent. `content_type` None: there is no body."""

    callback_url: str
    method: str = DEFAULT_METHOD
    headers: Headers = ()
    body: bytes | None = None
    content_type: str | None = None
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    success_statuses: Statuses = SUCCESS_STATUSES

    def claim(self, client_id: int, secrets: tuple[str, ...], now: datetime) -> Claim:
        """As the first and only attempt of a job that never was."""
        return Claim(
            job_id=uuid7(),
            client_id=client_id,
            type=TRIAL_TYPE,
            body=self.body,
            callback_url=self.callback_url,
            queue_generation=1,
            attempt=1,
            max_attempts=1,
            number=1,
            due_at=now,
            claimed_at=now,
            first_due_at=now,
            signing_secrets=secrets,
            method=self.method,
            content_type=self.content_type,
            headers=self.headers,
            timeout_seconds=self.timeout_seconds,
            success_statuses=self.success_statuses,
        )


def send(settings: Settings, claim: Claim, threads: NativeThreads, lookup: Lookup | None = None) -> Answer:
    """Sends the claim once and waits for what it comes to; what blocks runs in one of `threads`.

    The lookup and the call end at the claim's deadline. A lookup cannot be interrupted: its thread may outlast it.
    """
    try:
        target = parse(claim.callback_url, settings.allowed_callback_cidrs)
    except CallbackUrlRefused as refused:
        return failure(claim.claimed_at, "blocked", str(refused))
    call = Call(settings, lambda: True)
    try:
        call.begin(claim, target, claim.claimed_at)
        finding = NO_LOOKUP if target.address is not None else _find(settings, call, threads, lookup or getaddrinfo)
        if finding.error_class is not None:
            return call.failure(finding.error_class, finding.error or "")
        return threads.start(_perform, call, finding.addresses).result()
    finally:
        call.curl.close()


def _find(settings: Settings, call: Call, threads: NativeThreads, lookup: Lookup) -> Finding:
    is_proxied = settings.egress_proxy is not None
    asked = threads.start(look_up, call.target.host, lookup)
    try:
        resolution = asked.result(max(0.0, call.lookup_deadline - time.monotonic()))
    except TimeoutError:
        return NO_LOOKUP if is_proxied else Finding((), *lookup_timeout(call.claim))
    return checked(resolution, settings.allowed_callback_cidrs, is_proxied)


def _perform(call: Call, addresses: Sequence[str]) -> Answer:
    try:
        call.arm(addresses)
        call.curl.perform()
    except ValueError as error:
        return call.failure("protocol", f"The request could not be built: {error}")
    except pycurl.error as error:
        return call.answer(*error.args)
    return call.answer(0, "")
