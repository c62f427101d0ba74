"""A page's form as a browser would send it back, and what it says is wrong."""

from __future__ import annotations

import html
import re

from werkzeug.test import TestResponse


def values(page: str) -> dict[str, str]:
    """The fields of the page's own form as a browser would send them back."""
    form = re.search(r"<form[^>]* data-once.*?</form>", page, re.DOTALL)
    assert form is not None
    page = form[0]
    found = dict(re.findall(r'<input[^>]* name="([a-z_]+)"[^>]*? value="([^"]*)"', page))
    for tag in re.findall(r"<input[^>]*checked[^>]*>", page):
        name, value = re.search(r'name="([a-z_]+)"', tag), re.search(r'value="([^"]*)"', tag)
        assert name and value
        found[name[1]] = value[1]
    for name, body in re.findall(r'<textarea[^>]* name="([a-z_]+)"[^>]*>\r?\n(.*?)</textarea>', page, re.DOTALL):
        # A browser reads each line end as a line feed, and sends it as CRLF.
        found[name] = body.replace("\r\n", "\n").replace("\n", "\r\n")
    for name, body in re.findall(r'<select[^>]* name="([a-z_]+)"[^>]*>(.*?)</select>', page, re.DOTALL):
        chosen = re.search(r'selected value="([^"]*)"', body)
        if chosen:
            found[name] = chosen[1]
    return {name: html.unescape(value) for name, value in found.items() if name != "csrf_token"}


def refusals(answer: TestResponse) -> dict[str, str]:
    """What the form says is wrong, by field."""
    assert answer.status_code == 422
    found = re.findall(r'id="(\w+)-error">.*?</svg> (.*?)</div>', answer.text, re.DOTALL)
    return {name: html.unescape(message) for name, message in found}
