"""The fields of a call, the same in the form of a job and in that of a cron entry: their words, and how they are filled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from flask_wtf import FlaskForm
from wtforms import RadioField, SelectChoice, SelectField, StringField, TextAreaField

from app.attempts import Answer
from app.callback import (
    DEFAULT_ATTEMPTS,
    DEFAULT_METHOD,
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    DEFAULT_TIMEOUT_SECONDS,
    METHODS,
    headers_of,
    statuses_shown,
)
from app.dashboard import header_lines, spans
from app.retry import DEFAULT_POLICY
from app.retry_policy import policy_of

BACKOFFS = {
    "exponential": "growing by a factor",
    "linear": "growing by the first wait",
    "fixed": "always the same",
    "list": "as listed",
}
JITTERS = {"half": "up to half of each wait", "full": "up to the whole wait", "none": "none"}
BODY_KINDS = {"json": "JSON", "text": "Text", "none": "None"}
DEFAULT_STATUSES = ", ".join(map(str, statuses_shown(None)))


class Stored(Protocol):
    """A job or a cron entry, with its texts as app.callback stores them."""

    @property
    def payload(self) -> str | None: ...
    @property
    def callback_url(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def headers(self) -> str: ...
    @property
    def content_type(self) -> str | None: ...
    @property
    def timeout_seconds(self) -> float: ...
    @property
    def success_statuses(self) -> str | None: ...
    @property
    def max_attempts(self) -> int: ...
    @property
    def retry(self) -> str | None: ...
    @property
    def on_success_url(self) -> str | None: ...
    @property
    def on_failure_url(self) -> str | None: ...
    @property
    def queue(self) -> str: ...
    @property
    def priority(self) -> int: ...
    @property
    def tags(self) -> list[str]: ...


def _choices(words: dict[str, str]) -> list[SelectChoice]:
    return [SelectChoice(value, label) for value, label in words.items()]


class CallbackForm(FlaskForm):  # type: ignore[misc]
    """Every rule is in app.dashboard.callback_fields, which has them from the API."""

    type = StringField("Type", description="What kind of job it is, for the receiver and for people.")
    callback_url = StringField("Callback URL", description="Where it is delivered: a public http or https address.")
    method = SelectField(
        "Method", choices=[SelectChoice(name) for name in METHODS], default=DEFAULT_METHOD, validate_choice=False
    )
    headers = TextAreaField(
        "Headers", description="One a line, such as X-Tenant: 7. They are sent beside those that Punctual sets itself."
    )
    body_kind = RadioField("Body", choices=_choices(BODY_KINDS), default="json", validate_choice=False)
    payload = TextAreaField(
        "Payload", default="{}", description="Any JSON value; it is sent exactly as it stands here."
    )
    body = TextAreaField(
        "Text to send", description="In UTF-8, exactly as it stands here, each line ended by a line feed."
    )
    content_type = StringField("Content-Type", description="What the text is; plain text when it is left out.")
    timeout_seconds = StringField(
        "Time-out",
        default=spans.shown(DEFAULT_TIMEOUT_SECONDS),
        description="For the whole call, from 0.1 s to 15 min.",
    )
    success_statuses = StringField(
        "What is a success",
        default=DEFAULT_STATUSES,
        description="Statuses and ranges with commas between, such as 2xx, 404.",
    )
    max_attempts = StringField("Attempts at most", default=str(DEFAULT_ATTEMPTS))
    backoff = SelectField(
        "Waits between attempts", choices=_choices(BACKOFFS), default=DEFAULT_POLICY.backoff, validate_choice=False
    )
    base_seconds = StringField("First wait", default=spans.shown(DEFAULT_POLICY.base_seconds))
    factor = StringField("Factor", default=spans.number(DEFAULT_POLICY.factor))
    max_seconds = StringField("Longest wait", default=spans.shown(DEFAULT_POLICY.max_seconds))
    delays = StringField(
        "The waits", description="With commas between, such as 5 s, 1 min, 1 h; the last one again and again."
    )
    jitter = SelectField(
        "Less a random part", choices=_choices(JITTERS), default=DEFAULT_POLICY.jitter, validate_choice=False
    )
    give_up_after_seconds = StringField(
        "Give up after", description="Optional, such as 1 d: no attempt later than this after the job was first due."
    )
    queue = StringField(
        "Queue", default=DEFAULT_QUEUE, description="Made on first use; what its limits hold back waits."
    )
    priority = StringField(
        "Priority", default=str(DEFAULT_PRIORITY), description="0 to 9, 9 first. A level is a head start of 5 minutes."
    )
    tags = StringField("Tags", description="Optional, to find it by: at most 10, with commas between.")
    on_success_url = StringField("Tell this URL when it is done", description="Optional: a job of its own tells it.")
    on_failure_url = StringField("Tell this URL when it is dead", description="Optional: a job of its own tells it.")

    # What a test of the call came to, once it was asked for.
    was_tested = False
    tested: Answer | None = None
    test_problem = ""

    def is_used(self, *names: str) -> bool:
        """Whether one of these fields says something else than at first, or something wrong."""
        return any(self[name].errors or (self[name].data or "") != (self[name].default or "") for name in names)

    def refuse(self, errors: Mapping[str, str], otherwise: str = "type") -> None:
        """Puts what is wrong to its fields; what is of none, to that of `otherwise`."""
        for name, message in errors.items():
            self[name if name in self else otherwise].errors = [message]

    def texts(self) -> dict[str, str]:
        """What stands in each field."""
        return {field.name: field.data or "" for field in self}


def fill(form: CallbackForm, stored: Stored, job_type: str) -> None:
    """Puts a stored call into an empty form; values of headers that may be secrets stay hidden."""
    policy = policy_of(stored.retry)
    for name in ("callback_url", "method", "content_type", "on_success_url", "on_failure_url"):
        form[name].data = getattr(stored, name) or ""
    form.type.data, form.max_attempts.data = job_type, str(stored.max_attempts)
    form.headers.data = header_lines.shown(headers_of(stored.headers))
    form.body_kind.data = body_kind(stored)
    if stored.payload is not None:
        form["payload" if stored.content_type is None else "body"].data = stored.payload
    form.timeout_seconds.data = spans.shown(stored.timeout_seconds)
    form.success_statuses.data = statuses_text(stored)
    form.backoff.data, form.jitter.data, form.factor.data = policy.backoff, policy.jitter, spans.number(policy.factor)
    form.base_seconds.data, form.max_seconds.data = spans.shown(policy.base_seconds), spans.shown(policy.max_seconds)
    form.delays.data = ", ".join(map(spans.shown, policy.delays))
    form.queue.data, form.priority.data = stored.queue, str(stored.priority)
    form.tags.data = tags_text(stored.tags)
    limit = policy.give_up_after_seconds
    form.give_up_after_seconds.data = "" if limit is None else spans.shown(limit)


def body_kind(stored: Stored) -> str:
    if stored.payload is None:
        return "none"
    return "json" if stored.content_type is None else "text"


def statuses_text(stored: Stored) -> str:
    return ", ".join(map(str, statuses_shown(stored.success_statuses)))


def tags_text(tags: Sequence[str]) -> str:
    return ", ".join(tags)
