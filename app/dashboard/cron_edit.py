"""Making and changing a cron entry: the form, with its next times beside it."""

from __future__ import annotations

from flask import abort, flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from wtforms import SelectChoice

from app import cron_entries
from app.cron import TIMEZONE_NAMES
from app.cron_entries import Entry
from app.cron_entries.definition import as_change
from app.current import punctual
from app.dashboard import callback_test, choices, context, cron_form, cron_words, formats
from app.dashboard.cron_form import CronForm
from app.dashboard.cron_preview import Preview, preview
from app.dashboard.form_errors import FormRefused, told
from app.dashboard.job_actions import by_me
from app.dashboard.planned_delays import plan_of
from app.dashboard.roles import requires
from app.errors import Conflict, InvalidRequest, NotFound

ZONES = sorted(TIMEZONE_NAMES)


def find(entry_id: int) -> Entry:
    """The entry, whoever's it is; 404 when there is none."""
    try:
        return cron_entries.get(punctual().engine, None, entry_id)
    except NotFound:
        abort(404)


@requires("operator")
def new() -> ResponseReturnValue:
    form, clients = _form()
    source = _source(request.args.get("from") if request.method == "GET" else form.source.data)
    if request.method == "GET" and source is not None:
        cron_form.fill(form, source)
        form.name.data, form.source.data = "", str(source.id)
    if not _is_to_be_saved(form):
        return _page(form, None)
    if callback_test.is_asked_for():
        client_id = int(form.client.data) if form.client.data in map(str, clients) else None
        return callback_test.answer(form, source, client_id, lambda: _page(form, None))
    if form.client.data not in map(str, clients):
        return _refused(form, None, {"client": "Choose whose entry it is."})
    try:
        entry_id = cron_entries.create(punctual().engine, int(form.client.data), cron_form.read(form, source), by_me())
    except (FormRefused, InvalidRequest, Conflict) as error:
        return _refused(form, None, _errors(error))
    flash("The cron entry is made.", "success")
    return redirect(url_for("dashboard.cron.show", entry_id=entry_id))


@requires("operator")
def edit(entry_id: int) -> ResponseReturnValue:
    entry = find(entry_id)
    form, _ = _form()
    if request.method == "GET":
        cron_form.fill(form, entry)
    if not _is_to_be_saved(form):
        return _page(form, entry)
    if callback_test.is_asked_for():
        return callback_test.answer(form, entry, entry.client_id, lambda: _page(form, entry))
    try:
        definition = cron_form.read(form, entry)
        cron_entries.change(punctual().engine, None, entry_id, as_change(definition), by_me())
    except (FormRefused, InvalidRequest, Conflict) as error:
        return _refused(form, entry, _errors(error))
    flash("The cron entry is changed.", "success")
    return redirect(url_for("dashboard.cron.show", entry_id=entry_id))


@requires("viewer")
def show_preview() -> str:
    """The next times for what stands in the form, as it asks for them while somebody types."""
    entry_id = request.args.get("entry", "")
    entry = find(int(entry_id)) if entry_id.isascii() and entry_id.isdigit() and len(entry_id) < 19 else None
    return render_template("cron/_preview.html", preview=preview(request.args, context.now(), entry), **_words())


def _form() -> tuple[CronForm, dict[int, str]]:
    form, clients = CronForm(), choices.clients()
    form.client.choices = [SelectChoice(str(client_id), formats.shortened(name)) for client_id, name in clients.items()]
    return form, clients


def _source(text: str | None) -> Entry | None:
    """The entry that a new one is a copy of."""
    return find(int(text)) if text and text.isascii() and text.isdigit() and len(text) < 19 else None


def _is_to_be_saved(form: CronForm) -> bool:
    """Without a script the next times are shown by a button of their own."""
    return "preview" not in request.form and bool(form.validate_on_submit())


def _errors(error: FormRefused | InvalidRequest | Conflict) -> dict[str, str]:
    if isinstance(error, FormRefused):
        return error.errors
    if isinstance(error, Conflict):
        return {"name": "Another entry of this client has this name: take another."}
    return told(error, "cron_expression")


def _refused(form: CronForm, entry: Entry | None, errors: dict[str, str]) -> ResponseReturnValue:
    form.refuse(errors, "cron_expression")
    return _page(form, entry)


def _page(form: CronForm, entry: Entry | None) -> ResponseReturnValue:
    given = {field.name: field.data or "" for field in form}
    shown: Preview | None = preview(given, context.now(), entry)
    page = render_template(
        "cron/edit.html", form=form, entry=entry, preview=shown, plan=plan_of(form), zones=ZONES, **_words()
    )
    return page, 422 if form.errors else 200


def _words() -> dict[str, object]:
    return {"overlap_words": cron_words.OVERLAP, "catch_up_words": cron_words.CATCH_UP, "in_zone": cron_words.in_zone}
