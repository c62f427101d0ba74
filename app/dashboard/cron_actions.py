"""What a person may do to a cron entry: run it now, pause and resume it, fill in times past, delete it."""

from __future__ import annotations

from datetime import datetime

from flask import abort, flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from app import cron_entries
from app.current import punctual
from app.dashboard import context, cron_form, cron_words
from app.dashboard.cron_edit import find
from app.dashboard.job_actions import by_me
from app.dashboard.local_path import local_path
from app.dashboard.roles import requires
from app.errors import ApiError, NotFound


@requires("operator")
def trigger(entry_id: int) -> ResponseReturnValue:
    try:
        job_id = cron_entries.trigger(punctual(), None, entry_id, by_me())
    except NotFound:
        abort(404)
    flash("A job is on its way. The schedule stays as it is.", "success")
    return redirect(url_for("dashboard.jobs.show", job_id=job_id))


@requires("operator")
def pause(entry_id: int) -> ResponseReturnValue:
    reason = request.form.get("reason", "").replace("\r\n", "\n").strip() or None
    try:
        cron_entries.pause(punctual().engine, None, entry_id, reason, by_me())
    except ApiError as error:
        return _back(entry_id, error)
    flash("The entry is paused. What it misses will be on record.", "success")
    return _back(entry_id)


@requires("operator")
def resume(entry_id: int) -> ResponseReturnValue:
    try:
        cron_entries.resume(punctual().engine, None, entry_id, by_me())
    except ApiError as error:
        return _back(entry_id, error)
    flash("The entry goes on from now.", "success")
    return _back(entry_id)


@requires("operator")
def delete(entry_id: int) -> ResponseReturnValue:
    try:
        cron_entries.remove(punctual().engine, None, entry_id, by_me())
    except NotFound:
        abort(404)
    flash("The entry is deleted. Jobs it has made go on.", "success")
    return redirect(url_for("dashboard.cron.index"))


@requires("operator")
def backfill(entry_id: int) -> ResponseReturnValue:
    """First the count, then, with the same span, the jobs."""
    entry = find(entry_id)
    given = {name: request.values.get(name, "").strip() for name in ("from", "to")}
    count, problem = None, None
    if all(given.values()):
        try:
            first, last = (_instant(text, entry.timezone) for text in given.values())
            is_meant = request.method == "POST"
            count = cron_entries.backfill(punctual(), None, entry_id, first, last, by_me(), dry_run=not is_meant)
            if is_meant:
                flash(f"{count:,} {'job is' if count == 1 else 'jobs are'} on the way.", "success")
                return redirect(url_for("dashboard.cron.show", entry_id=entry_id))
        except (ApiError, ValueError) as error:
            problem = _sentence(error)
    elif any(given.values()):
        problem = "Give both times."
    status = 422 if problem else 200
    newest = cron_form.wall_time(context.now(), entry.timezone)
    page = render_template(
        "cron/backfill.html", entry=entry, given=given, count=count, problem=problem, newest=newest, words=cron_words
    )
    return page, status


def _instant(text: str, zone_name: str) -> datetime:
    """A time of the entry's zone. Raises ValueError."""
    found = cron_form.local_instant(text, zone_name)
    return datetime.fromisoformat(found)


def _sentence(error: ApiError | ValueError) -> str:
    if not isinstance(error, ApiError):
        return str(error)
    detail = (error.details or [{"message": error.message}])[0]["message"]
    return f"{detail[:1].upper()}{detail[1:]}"


def _back(entry_id: int, error: ApiError | None = None) -> ResponseReturnValue:
    if isinstance(error, NotFound):
        abort(404)
    if error is not None:
        flash(_sentence(error), "warning")
    return redirect(local_path(request.form.get("next"), url_for("dashboard.cron.show", entry_id=entry_id)))
