"""The waits between attempts that a policy plans, as both forms show them while it is typed."""

from __future__ import annotations

from dataclasses import dataclass, field

from flask import render_template, request

from app.dashboard import retry_fields
from app.dashboard.callback_form import CallbackForm
from app.dashboard.form_errors import FormRefused
from app.dashboard.roles import requires
from app.retry import RetryPolicy, planned

NAMES = (
    *("max_attempts", "backoff", "base_seconds", "factor", "max_seconds", "delays", "jitter"),
    "give_up_after_seconds",
)


@dataclass(frozen=True)
class Plan:
    """Seconds between the attempts, before jitter; or what is wrong, in words."""

    waits: list[float] = field(default_factory=list)
    attempts: int = 0
    jitter: str = "none"
    give_up_after_seconds: float | None = None
    problems: tuple[str, ...] = ()

    @property
    def gives_up_early(self) -> bool:
        """Whether the limit of time comes before that of attempts."""
        return len(self.waits) < self.attempts - 1


def plan(policy: RetryPolicy, attempts: int) -> Plan:
    return Plan(planned(policy, attempts), attempts, policy.jitter, policy.give_up_after_seconds)


def plan_of(form: CallbackForm) -> Plan:
    """What stands in the form."""
    try:
        return plan(*retry_fields.read_policy(form.texts()))
    except FormRefused as refused:
        return Plan(problems=tuple(f"{form[name].label.text}: {words}" for name, words in refused.errors.items()))


@requires("viewer")
def planned_delays() -> str:
    """The planned delays of what stands in the address; what is left out there is as in a new form."""
    form = CallbackForm(formdata=None)
    for name in NAMES:
        form[name].data = request.args.get(name, form[name].data)
    return render_template("callback/_planned.html", plan=plan_of(form))
