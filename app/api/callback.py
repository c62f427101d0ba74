"""From what a request says of a call to what is stored: whether its addresses may be called, and its one spelling."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, cast

from app import callback_url
from app.api.lookup import WAIT_SECONDS, Lookups
from app.api.schemas_callback import CallbackFields
from app.api.schemas_cron import JobTemplate
from app.api.schemas_jobs import JobChange, JobSubmission
from app.callback import BODYLESS, DEFAULT_ATTEMPTS, DEFAULT_TIMEOUT_SECONDS, TEXT_TYPE, headers_text, statuses_text
from app.callback_url import CallbackUrlRefused, Target
from app.cron_entries.definition import Template
from app.current import settings
from app.errors import invalid
from app.fingerprint import fingerprint
from app.jobs.edit import JobEdit
from app.jobs.requests import JobRequest
from app.retry_policy import text_of

# Where a callback goes, by its URL and the field that holds it. Raises InvalidRequest that names the field.
Locate = Callable[[str, str], Target]

lookups = Lookups()


def job_request(
    given: JobSubmission, client_id: int, idempotency_key: str | None, locate: Locate | None = None
) -> JobRequest:
    """The job that is asked for. Raises InvalidRequest."""
    if given.run_at is not None and given.expires_at is not None and given.expires_at <= given.run_at:
        raise invalid("expires_at", "it must be later than run_at.")
    values = _callback(given, locate or take)
    mark = None
    if idempotency_key is not None:
        payload = None if given.payload is None else given.payload.value
        # Left out and given as it would be by default is the same.
        same: dict[str, Any] = {"max_attempts": given.max_attempts or DEFAULT_ATTEMPTS}
        same["timeout_seconds"] = given.timeout_seconds or DEFAULT_TIMEOUT_SECONDS
        rest = [({**values, **same})[name] for name in sorted(values.keys() - {"payload"})]
        mark = fingerprint(given.type, given.queue, given.payload is None, payload, given.body, *rest)
    return JobRequest(
        client_id=client_id,
        type=given.type,
        queue=given.queue,
        run_at=given.run_at,
        delay_seconds=given.delay_seconds,
        idempotency_key=idempotency_key,
        request_fingerprint=mark,
        expires_at=given.expires_at,
        dedupe_window_seconds=given.dedupe_window_seconds,
        **values,
    )


def job_edit(given: JobChange) -> JobEdit:
    """What is to be changed of a job, its addresses looked up as at submit. Raises InvalidRequest."""
    named = given.model_fields_set
    edit: dict[str, Any] = {
        name: getattr(given, name)
        for name in ("run_at", "method", "timeout_seconds", "max_attempts", "priority", "tags")
        if name in named
    }
    if given.headers is not None:
        edit["headers"] = headers_text(given.headers.items())
    if given.retry is not None:
        edit["retry"] = text_of(given.retry.policy())
    if "success_statuses" in named:
        edit["success_statuses"] = None if given.success_statuses is None else statuses_text(given.success_statuses)
    if {"payload", "body"} & named:
        edit |= _body(given)
    for name in ("callback", "on_success", "on_failure"):
        if f"{name}_url" in named:
            edit |= _address(name, getattr(given, f"{name}_url"), take)
    return cast(JobEdit, edit)


def job_template(given: JobTemplate, locate: Locate | None = None) -> Template:
    """The template that is asked for. Raises InvalidRequest."""
    return Template(job_type=given.type, queue=given.queue, **_callback(given, locate or take, "job_template."))


def _callback(given: CallbackFields, locate: Locate, prefix: str = "") -> dict[str, Any]:
    """The columns of app.callback.Callback."""
    if given.payload is None and given.body is None and given.method not in BODYLESS:
        raise invalid(f"{prefix}payload", f"is required, or a body: only {' and '.join(BODYLESS)} do without.")
    values: dict[str, Any] = {
        **_body(given),
        "method": given.method,
        "headers": headers_text(given.headers.items()),
        "timeout_seconds": given.timeout_seconds,
        "success_statuses": None if given.success_statuses is None else statuses_text(given.success_statuses),
        "max_attempts": given.max_attempts,
        "priority": given.priority,
        "tags": given.tags,
        "retry": text_of(given.retry.policy()),
    }
    for name in ("callback", "on_success", "on_failure"):
        values |= _address(name, getattr(given, f"{name}_url"), locate, prefix)
    return values


def _body(given: CallbackFields | JobChange) -> dict[str, Any]:
    if given.payload is not None:
        return {"payload": given.payload.text, "content_type": None}
    return {"payload": given.body, "content_type": None if given.body is None else given.content_type or TEXT_TYPE}


def _address(name: str, url: str | None, locate: Locate, prefix: str = "") -> dict[str, Any]:
    target = None if url is None else locate(url, f"{prefix}{name}_url")
    return {f"{name}_url": target and target.url, f"{name}_host": target and target.key}


def take_together(urls: Iterable[str]) -> Locate:
    """`take` for many addresses: their hosts are looked up side by side, once each, and all are waited for a second in all."""
    allowed, hosts = settings().allowed_callback_cidrs, dict[str, None]()
    for url in dict.fromkeys(urls):
        with suppress(CallbackUrlRefused):
            target = callback_url.parse(url, allowed)
            if target.address is None:
                hosts[target.host] = None
    lookups.begin(hosts)
    deadline = time.monotonic() + WAIT_SECONDS
    return lambda url, field: take(url, field, max(0.0, deadline - time.monotonic()))


def take(url: str, field: str = "callback_url", wait_seconds: float = WAIT_SECONDS) -> Target:
    """Where the callback goes. Raises InvalidRequest that names `field`.

    A name that does not resolve within a second is taken: its receiver may not be up yet, and the delivery asks again.
    """
    allowed = settings().allowed_callback_cidrs
    try:
        target = callback_url.parse(url, allowed)
    except CallbackUrlRefused as error:
        raise invalid(field, str(error)) from None
    if target.address is None:
        for address in lookups.addresses(target.host, wait_seconds):
            reason = callback_url.address_verdict(address, allowed)
            if reason is not None:
                raise invalid(
                    field,
                    f"The URL's host resolves to an address that may not be called: {reason}. Use a public address, "
                    "or ask the operator to open its network with ALLOWED_CALLBACK_CIDRS.",
                )
    return target
