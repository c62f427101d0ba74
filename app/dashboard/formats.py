"""How values read on a page: spans, counts, instants, and text from outside with nothing hidden in it. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# C0 and C1 controls but tab and line ends, and what turns or hides neighbouring text: bidirectional controls (Unicode UAX 9),
# zero-width signs, the soft hyphen, line and paragraph separators, lone surrogates.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def plain(value: object) -> str:
    """Text from outside with its invisible characters spelled out, such as \\u202e, so that it cannot pose as other text."""
    return _HIDDEN.sub(lambda match: f"\\u{ord(match.group()):04x}", str(value))


def shortened(value: object, length: int = 80) -> str:
    """`plain` text of at most `length` characters, cut with an ellipsis."""
    text = plain(value)
    return text if len(text) <= length else text[: length - 1] + "…"


def count(number: float) -> str:
    """12,345"""
    return f"{number:,.0f}"


def capped(number: int, cap: int) -> str:
    """A count that was not taken beyond `cap`: 10,000+"""
    return f"{cap:,}+" if number > cap else f"{number:,}"


def about(number: float) -> str:
    """An estimate in two figures: "about 1.2 million"; small ones as they are."""
    if number < 1000:
        return f"about {number:,.0f}"
    for size, word in ((1_000_000_000, " billion"), (1_000_000, " million"), (1000, ",000")):
        if number >= size:
            share = number / size
            return f"about {share:.0f}{word}" if word == ",000" or share >= 10 else f"about {share:.1f}{word}"
    raise AssertionError


def percent(share: float | None) -> str:
    """Of a share in 0..1. Never 100 % while something failed, nor 0 % while something did not."""
    if share is None:
        return "—"
    if 0.9995 <= share < 1:
        return "99.9 %"
    if 0 < share < 0.001:
        return "0.1 %"
    return f"{share * 100:.1f}".removesuffix(".0") + " %"


def duration(span: float | timedelta | None) -> str:
    """A span (seconds, or a timedelta) in its two largest units: 350 ms, 2.4 s, 4 min 05 s, 3 h 20 min, 2 d 4 h."""
    if span is None:
        return "—"
    seconds = span.total_seconds() if isinstance(span, timedelta) else span
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    for size, name, small, small_name, form in (
        (86_400, "d", 3600, "h", "{}"),
        (3600, "h", 60, "min", "{:02}"),
        (60, "min", 1, "s", "{:02}"),
    ):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size} {name}" + (f" {form.format(rest)} {small_name}" if rest else "")
    return f"{whole} s"


def milliseconds(value: float | None) -> str:
    """A span given in milliseconds."""
    return duration(None if value is None else value / 1000)


def size(number: int) -> str:
    """Bytes: 512 B, 1.5 KB, 2.0 MB (of 1,024)."""
    if number < 1024:
        return f"{number} B"
    return f"{number / 1024:.1f} KB" if number < 1024 * 1024 else f"{number / 1024 / 1024:.1f} MB"


def relative(at: datetime, now: datetime) -> str:
    """ "3 min ago", "in 2 h", "just now"; static/time.js says the same."""
    seconds = (at - now).total_seconds()
    if abs(seconds) < 5:
        return "just now" if seconds <= 0 else "in a moment"
    words = _one_unit(abs(seconds))
    return f"in {words}" if seconds > 0 else f"{words} ago"


def _one_unit(seconds: float) -> str:
    for size, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {name}"
    return f"{seconds:.0f} s"


def countdown(at: datetime, now: datetime) -> str:
    """ "in 4 min 05 s" down to "now"; static/time.js says the same."""
    seconds = round((at - now).total_seconds())
    return f"in {duration(float(seconds))}" if seconds > 0 else "now"


def full(at: datetime, zone: tzinfo) -> str:
    """1 Dec 2026, 11:00:05"""
    local = at.astimezone(zone)
    return f"{local.day} {MONTHS[local.month - 1]} {local.year:04}, {local:%H:%M:%S}"


def clock(at: datetime, zone: tzinfo) -> str:
    """11:00"""
    return f"{at.astimezone(zone):%H:%M}"


def in_utc(at: datetime) -> str:
    """1 Dec 2026, 10:00:05 UTC"""
    return f"{full(at, UTC)} UTC"
