"""Cron entries: the list, an entry with what became of its times, and the addresses of everything under /cron."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from flask import Blueprint, abort, render_template, request, url_for

from app.cron_entries import listing
from app.cron_entries.listing import LAST_ID, STATES, last_outcomes, search
from app.current import punctual
from app.dashboard import choices, cron_actions, cron_edit, cron_words, form_room
from app.dashboard.blueprint import is_fragment_request
from app.dashboard.roles import requires
from app.instants import format_instant, parse_instant

bp = Blueprint("cron", __name__, url_prefix="/cron")
INDEX = "dashboard.cron.index"
SHOW = "dashboard.cron.show"
PAGE = 50
OCCURRENCES = 25


@bp.url_value_preprocessor
def refuse_what_no_entry_is_called(_endpoint: str | None, values: dict[str, Any] | None) -> None:
    """Numbers that PostgreSQL cannot hold."""
    if values is not None and values.get("entry_id", 0) > LAST_ID:
        abort(404)


@bp.get("/")
@requires("viewer")
def index() -> str:
    """Entries, newest first."""
    q = request.args.get("q", "").strip().replace("\0", "")[:128] or None
    state = request.args.get("state") if request.args.get("state") in STATES else None
    client, before = _number("client"), _number("before")
    found = search(punctual().engine, q=q, state=state, client_id=client, below=before, most=PAGE + 1)
    kept: dict[str, Any] = {"q": q, "state": state, "client": client}
    return render_template(
        "cron/_list.html" if is_fragment_request() else "cron/index.html",
        entries=found[:PAGE],
        kept=kept,
        is_filtered=any(kept.values()),
        clients=choices.clients(),
        state_choices=[(name, name) for name in STATES],
        words=cron_words,
        newest=url_for(INDEX, **kept) if before else None,
        older=url_for(INDEX, **kept, before=found[PAGE - 1].id) if len(found) > PAGE else None,
    )


@bp.get("/<int:entry_id>")
@requires("viewer")
def show(entry_id: int) -> str:
    """An entry: its state, next times, and what became of those before."""
    entry = cron_edit.find(entry_id)
    engine = punctual().engine
    before = _instant("before")
    found = listing.times(engine, entry_id, before, OCCURRENCES + 1)
    older = format_instant(found[OCCURRENCES - 1].nominal_at) if len(found) > OCCURRENCES else None
    return render_template(
        "cron/_live.html" if is_fragment_request() else "cron/show.html",
        entry=entry,
        client_name=choices.clients().get(entry.client_id, str(entry.client_id)),
        times=cron_words.next_times(entry),
        outcomes=last_outcomes(engine, [entry_id])[entry_id],
        occurrences=found[:OCCURRENCES],
        words=cron_words,
        newest=url_for(SHOW, entry_id=entry_id) if before else None,
        older=url_for(SHOW, entry_id=entry_id, before=older) if older else None,
    )


def _number(name: str) -> int | None:
    text = request.args.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _instant(name: str) -> datetime | None:
    try:
        return parse_instant(request.args.get(name, ""))
    except ValueError:
        return None


bp.add_url_rule("/new", view_func=cron_edit.new, methods=["GET", "POST"])
bp.add_url_rule("/preview", "preview", view_func=cron_edit.show_preview)
bp.add_url_rule("/<int:entry_id>/edit", view_func=cron_edit.edit, methods=["GET", "POST"])
bp.add_url_rule("/<int:entry_id>/backfill", view_func=cron_actions.backfill, methods=["GET", "POST"])
for _view in (cron_actions.trigger, cron_actions.pause, cron_actions.resume, cron_actions.delete):
    bp.add_url_rule(f"/<int:entry_id>/{_view.__name__}", view_func=_view, methods=["POST"])
bp.url_value_preprocessor(form_room.make_room)
