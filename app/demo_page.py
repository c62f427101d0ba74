"""The demo receiver's page: what arrived, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from app.demo_record import Arrival

SHOWN = 100
SHOWN_BODY_CHARACTERS = 1_000
HOOKS = ("/hook", "/hook-fail", "/hook-flaky?fails=2", "/hook-slow?seconds=2")

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="3">
<title>Demo receiver · Punctual</title>
<link rel="stylesheet" href="/style.css">
</head>
<body>
<header><h1>Demo receiver</h1><p>{total}. This page reads itself again every 3 seconds.</p></header>
<main>
<p>Addresses to call: {hooks}</p>
{arrivals}
</main>
</body>
</html>
"""
EMPTY = '<p class="empty">Nothing has arrived yet. Submit a job with one of the addresses above.</p>'
ARRIVAL = """<article>
<h2><span class="status {kind}">{answered}</span> {method} {path}</h2>
<p class="facts"><time datetime="{instant}">{clock}</time>{facts}</p>
<pre>{body}</pre>
</article>
"""
STYLE = """:root { color-scheme: light dark; --line: #d5d9e0; --soft: #f4f6f9; --quiet: #5b6472; }
@media (prefers-color-scheme: dark) { :root { --line: #3a414d; --soft: #1b1f26; --quiet: #a3adbd; } }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1.5rem; }
h1 { font-size: 1.6rem; margin: 0; }
header p, .facts { color: var(--quiet); margin: 0.2rem 0 1rem; }
code, pre { font-family: ui-monospace, monospace; font-size: 0.875rem; }
code { background: var(--soft); border-radius: 4px; padding: 0.1rem 0.35rem; }
article { border: 1px solid var(--line); border-radius: 8px; margin: 0 0 1rem; padding: 0.8rem 1rem; }
h2 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; }
.facts span::before { content: " · "; }
.facts { font-size: 0.875rem; margin-bottom: 0.5rem; overflow-wrap: anywhere; }
pre { background: var(--soft); border-radius: 6px; margin: 0; padding: 0.6rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.status { border-radius: 4px; color: #fff; padding: 0.1rem 0.45rem; }
.good { background: #17693a; } .bad { background: #a8251c; } .open { background: #5b6472; }
.empty { border: 1px dashed var(--line); border-radius: 8px; padding: 2rem; text-align: center; }
"""


def render(newest_first: Sequence[Arrival], total: int) -> str:
    shown = newest_first[:SHOWN]
    counted = "1 request has arrived" if total == 1 else f"{total} requests have arrived"
    return PAGE.format(
        total=f"{counted}; the latest {SHOWN} are shown" if total > SHOWN else counted,
        hooks=" ".join(f"<code>{escape(hook)}</code>" for hook in HOOKS),
        arrivals="".join(_article(arrival) for arrival in shown) or EMPTY,
    )


def _article(arrival: Arrival) -> str:
    facts = [
        ("job", arrival.header("X-Job-ID")),
        ("type", arrival.header("X-Job-Type")),
        ("attempt", " of ".join(filter(None, (arrival.header("X-Job-Attempt"), arrival.header("X-Job-Max-Attempts"))))),
    ]
    body = arrival.text
    cut = body[:SHOWN_BODY_CHARACTERS] + (" …" if len(body) > SHOWN_BODY_CHARACTERS else "")
    return ARRIVAL.format(
        kind="open" if not arrival.answered else "good" if arrival.answered < 300 else "bad",
        answered=arrival.answered or "waiting",
        method=escape(arrival.method),
        path=escape(arrival.path),
        instant=arrival.arrived_at.isoformat(),
        clock=arrival.arrived_at.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC",
        facts="".join(f"<span>{name} {escape(value)}</span>" for name, value in facts if value),
        body=escape(cut) or "(no body)",
    )
