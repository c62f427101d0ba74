"""Retry, cancel or delete many jobs: the ticked ones, or all that a filter matches. It says how many, and asks first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from flask import abort, flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from werkzeug.datastructures import MultiDict

from app.current import punctual
from app.dashboard import choices, formats, job_filter
from app.dashboard.job_actions import by_me
from app.dashboard.job_filter import Args, Filter
from app.dashboard.local_path import local_path
from app.dashboard.roles import requires
from app.jobs import bulk, bulk_operations, known_values, search
from app.jobs.bulk import LEAVES, Action, Done
from app.jobs.queries import JobRow
from app.jobs.search import Count

MOST_TICKED = 200
# Beyond, a change runs in the background.
MOST_AT_ONCE = 1000
SAMPLE = 10
# What one job is, and what several are.
DONE = {
    "retry": ("is on its way again", "are on their way again"),
    "cancel": ("is cancelled", "are cancelled"),
    "delete": ("is deleted", "are deleted"),
}


@dataclass(frozen=True)
class Question:
    """What is about to be done. `count` is of those that can be changed, `given` of all that were named."""

    action: Action
    given: Count
    count: Count
    sample: Sequence[JobRow]
    fields: list[tuple[str, str]]

    @property
    def is_in_background(self) -> bool:
        return self.count.number > MOST_AT_ONCE


@requires("operator")
def ask() -> ResponseReturnValue:
    """The question, with how many jobs it is about. Changes nothing."""
    action, back = _action(request.args), local_path(request.args.get("next"), url_for("dashboard.jobs.index"))
    ticked = _ticked(request.args)
    wanted = job_filter.read(request.args)
    if wanted.problems:
        abort(400)
    if not ticked and request.args.get("every") != "1":
        flash("Tick the jobs first.", "warning")
        return redirect(back)
    question = _about_ticked(action, ticked) if ticked else _about_filter(action, wanted)
    clients = choices.clients()
    shown = [] if ticked else job_filter.chips(wanted, "dashboard.jobs.index", clients)
    return render_template(
        "jobs/bulk.html",
        question=question,
        chips=shown,
        clients=clients,
        host_of=known_values.host_of,
        back=back,
    )


@requires("operator")
def change() -> ResponseReturnValue:
    """Does it. Whatever has moved on since the question is left alone, and counted."""
    action = _action(request.form)
    ticked = _ticked(request.form)
    if ticked:
        done = bulk.change_given(punctual(), action, ticked, by_me())
    else:
        wanted = job_filter.read(request.form)
        # A filter that is not understood must never become a wider one.
        if wanted.problems or request.form.get("every") != "1":
            abort(400)
        through = _uuid(request.form.get("through", ""))
        if _is_large(action, wanted):
            made = bulk_operations.ask(punctual().engine, action, wanted.search, by_me(), through=through)
            return redirect(url_for("dashboard.jobs.bulk_progress", operation_id=made))
        told = job_filter.in_words(wanted)
        done = bulk.change_matching(punctual(), action, wanted.search, by_me(), through, told)
    flash(*_told(action, done))
    return redirect(local_path(request.form.get("next"), url_for("dashboard.jobs.index")))


def _is_large(action: Action, wanted: Filter) -> bool:
    """More than a person waits for: it runs in the background, with its progress shown."""
    narrowed = search.narrowed(wanted.search, LEAVES[action])
    return narrowed is not None and search.count(punctual().engine, narrowed).number > MOST_AT_ONCE


def _about_ticked(action: Action, ticked: list[UUID]) -> Question:
    able = search.among(punctual().engine, ticked, LEAVES[action])
    fields = [("job", str(job.id)) for job in able]
    return Question(action, Count(len(ticked)), Count(len(able)), able[:SAMPLE], fields)


def _about_filter(action: Action, wanted: Filter) -> Question:
    engine = punctual().engine
    given = search.count(engine, wanted.search)
    narrowed = search.narrowed(wanted.search, LEAVES[action])
    newest = None if narrowed is None else search.newest_id(engine, narrowed)
    if narrowed is None or newest is None:
        return Question(action, given, Count(0), [], [])
    args = job_filter.frozen(wanted)
    fields = [*_pairs(args), ("every", "1"), ("through", str(newest))]
    return Question(action, given, search.count(engine, narrowed), search.page(engine, narrowed, SAMPLE), fields)


def _pairs(args: Args) -> list[tuple[str, str]]:
    return [(name, value) for name, values in args.items() for value in values]


def _told(action: Action, done: Done) -> tuple[str, str]:
    """The flash about what was done, and its tone."""
    of_one, of_several = DONE[action]
    parts = [f"1 job {of_one}." if done.changed == 1 else f"{formats.count(done.changed)} jobs {of_several}."]
    if done.passed_by:
        parts.append(f"{formats.count(done.passed_by)} had moved on meanwhile and were left alone.")
    if done.has_more:
        parts.append("More match: do the same again to go on.")
    return " ".join(parts), "success" if done.changed and not done.has_more else "warning"


def _action(values: MultiDict[str, str]) -> Action:
    action = values.get("action", "")
    if action not in LEAVES:
        abort(400)
    return action


def _ticked(values: MultiDict[str, str]) -> list[UUID]:
    given = values.getlist("job")
    if len(given) > MOST_TICKED:
        abort(400)
    return [_uuid(value) for value in given]


def _uuid(value: str) -> UUID:
    try:
        return UUID(value)
    except ValueError:
        abort(400)
