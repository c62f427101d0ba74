"""The filter of a list of jobs as it stands in the address: read, put in order, and named for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from flask import url_for
from werkzeug.datastructures import MultiDict

from app.current import punctual
from app.dashboard import viewer
from app.dashboard.context import now
from app.dashboard.formats import full
from app.instants import format_instant, parse_instant
from app.jobs.known_values import host_keys, shown_host
from app.jobs.search import JobSearch
from app.models import STATUSES

SPANS: dict[str, tuple[str, timedelta]] = {
    "15m": ("last 15 minutes", timedelta(minutes=15)),
    "1h": ("last hour", timedelta(hours=1)),
    "24h": ("last 24 hours", timedelta(hours=24)),
    "7d": ("last 7 days", timedelta(days=7)),
}
NAMES = ("q", "status", "type", "client", "host", "cron", "error", "queue", "tag", "since", "from", "until")
MOST_CHARACTERS = 300
Args = dict[str, list[str]]


@dataclass(frozen=True)
class Filter:
    """A filter. `args` is what it is in an address, in order; with `problems` it matches nothing, since it was not understood."""

    search: JobSearch
    args: Args
    problems: list[str] = field(default_factory=list)
    fixed: frozenset[str] = frozenset()

    def value(self, name: str) -> str:
        return self.args[name][0] if name in self.args else ""

    def without(self, name: str, value: str) -> Args:
        left = {**self.args, name: [each for each in self.args.get(name, []) if each != value]}
        return {each: values for each, values in left.items() if values}

    def address(self, endpoint: str, args: Args | None = None, whole: bool = False, **more: Any) -> str:
        """The address of a page with this filter, or with `args`; what the page fixes by itself only when asked for `whole`."""
        held = self.args if args is None else args
        values: dict[str, Any] = {name: each for name, each in held.items() if whole or name not in self.fixed}
        return url_for(endpoint, **values, **more)


def read(given: MultiDict[str, str], **fixed: list[str]) -> Filter:
    """The filter of a request; `fixed` stands whatever the address says. Local times are taken in the viewer's zone."""
    args = {name: values for name in NAMES if (values := _values(given, name))}
    args.update(fixed)
    problems: list[str] = []
    found: dict[str, Any] = {}
    for name, values in args.items():
        try:
            found.update(_READERS[name](values))
        except ValueError as error:
            problems.append(str(error))
    for name in ("from", "until"):
        if (instant := found.get(f"created_{name}")) is not None and not ("since" in args and name == "from"):
            args[name] = [format_instant(instant)]
    return Filter(JobSearch(**found), args, problems, frozenset(fixed))


def is_tidy(given: MultiDict[str, str], wanted: Filter) -> bool:
    """Whether the address holds the filter as `args` has it: without what is empty, and with times in UTC, to be shared."""
    asked = {name: given.getlist(name) for name in given if name in NAMES}
    return asked == {name: values for name, values in wanted.args.items() if name in asked}


def frozen(wanted: Filter) -> Args:
    """The filter with "the last hour" as the instant it means now, so that it stands still while somebody is asked."""
    args = {name: values for name, values in wanted.args.items() if name != "since"}
    if wanted.search.created_from is not None:
        args["from"] = [format_instant(wanted.search.created_from)]
    return args


def chips(
    wanted: Filter, endpoint: str, clients: Mapping[int, str], hidden: tuple[str, ...] = ()
) -> list[tuple[str, str]]:
    """(what it filters by, the address without it)."""
    return [
        (_words(name, value, clients), wanted.address(endpoint, wanted.without(name, value)))
        for name, values in wanted.args.items()
        for value in values
        if name not in hidden
    ]


def in_words(wanted: Filter) -> str:
    """The filter on one line, for the audit log."""
    return ", ".join(f"{name}={value}" for name, values in wanted.args.items() for value in values) or "every job"


def local_value(wanted: Filter, name: str) -> str:
    """An instant of the filter as a datetime-local input takes it."""
    instant: datetime | None = wanted.search.created_from if name == "from" else wanted.search.created_until
    if instant is None or name not in wanted.args:
        return ""
    return instant.astimezone(viewer.zone()).replace(tzinfo=None).isoformat(timespec="minutes")


def _values(given: MultiDict[str, str], name: str) -> list[str]:
    # PostgreSQL's text cannot hold a NUL, so that nothing is called that.
    cleaned = dict.fromkeys(value.strip().replace("\0", "\ufffd") for value in given.getlist(name) if value.strip())
    return list(cleaned) if name == "status" else list(cleaned)[:1]


def _words(name: str, value: str, clients: Mapping[int, str]) -> str:
    if name == "client":
        return f"client: {clients.get(int(value), value) if value.isdecimal() else value}"
    if name in ("from", "until"):
        try:
            return f"{name} {full(parse_instant(value), viewer.zone())}"
        except ValueError:
            return f"{name} {value}"
    labels = {"q": "search", "cron": "cron entry", "error": "error"}
    shown = SPANS[value][0] if name == "since" and value in SPANS else shown_host(value) if name == "host" else value
    return shown if name == "since" else f"{labels.get(name, name)}: {shown}"


def _statuses(values: list[str]) -> dict[str, Any]:
    unknown = [value for value in values if value not in STATUSES]
    if unknown:
        raise ValueError(f"There is no status “{unknown[0][:40]}”: it is one of {', '.join(STATUSES)}.")
    return {"statuses": tuple(status for status in STATUSES if status in values)}


def _number(name: str, what: str) -> Callable[[list[str]], dict[str, Any]]:
    def read_number(values: list[str]) -> dict[str, Any]:
        if not (values[0].isascii() and values[0].isdigit() and len(values[0]) < 19):
            raise ValueError(f"There is no {what} “{values[0][:40]}”.")
        return {name: int(values[0])}

    return read_number


def _text(name: str) -> Callable[[list[str]], dict[str, Any]]:
    def read_text(values: list[str]) -> dict[str, Any]:
        if len(values[0]) > MOST_CHARACTERS:
            raise ValueError(
                f"Nothing is called “{values[0][:40]}”: {MOST_CHARACTERS} characters at most are looked for."
            )
        return {name: values[0]}

    return read_text


def _host(values: list[str]) -> dict[str, Any]:
    host = str(_text("host")(values)["host"])
    return {"callback_hosts": host_keys(punctual().engine, host)}


def _since(values: list[str]) -> dict[str, Any]:
    if values[0] not in SPANS:
        raise ValueError(f"“{values[0][:40]}” is no span of time: it is one of {', '.join(SPANS)}.")
    return {"created_from": now() - SPANS[values[0]][1]}


def _instant(name: str) -> Callable[[list[str]], dict[str, Any]]:
    def read_instant(values: list[str]) -> dict[str, Any]:
        return {name: _local_or_absolute(values[0])}

    return read_instant


def _local_or_absolute(value: str) -> datetime:
    try:
        instant = _either(value)
    except ValueError:
        raise ValueError(
            f"“{value[:40]}” is no time: write it as 2026-12-01T10:00, or with an offset as 2026-12-01T10:00:00Z."
        ) from None
    if not 1970 < instant.year < 9999:
        raise ValueError(f"“{value[:40]}” lies too far from now: take a year from 1971 to 9998.")
    return instant


def _either(value: str) -> datetime:
    try:
        return parse_instant(value)
    except ValueError:
        local = datetime.fromisoformat(value)
        return local if local.tzinfo else local.replace(tzinfo=viewer.zone())


_READERS: dict[str, Callable[[list[str]], dict[str, Any]]] = {
    "q": _text("words"),
    "status": _statuses,
    "type": _text("type"),
    "client": _number("client_id", "client"),
    "host": _host,
    "cron": _number("cron_entry_id", "cron entry"),
    "error": _text("error_class"),
    "queue": _text("queue"),
    "tag": _text("tag"),
    "since": _since,
    "from": _instant("created_from"),
    "until": _instant("created_until"),
}
