"""docs/api.md names every route of the API and no other, and every field of a call."""

from __future__ import annotations

import re
from pathlib import Path

from app.api.docs import document
from app.api.schemas_callback import CallbackFields

PAGE = (Path(__file__).resolve().parent.parent / "docs/api.md").read_text(encoding="utf-8")


def test_every_route_is_documented_and_nothing_else() -> None:
    documented = re.findall(r"`(GET|POST|PUT|PATCH|DELETE) (/v1/[^`?]*)", PAGE)
    paths = document()["paths"].items()
    assert sorted(documented) == sorted((method.upper(), path) for path, methods in paths for method in methods)


def test_every_field_of_a_call_is_documented_and_nothing_else() -> None:
    table = PAGE.partition("## The call")[2].partition("\n\n`retry`")[0]
    rows = re.findall(r"^\| (`[^|]+`) \|", table, re.MULTILINE)
    documented = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(documented) == sorted(CallbackFields.model_fields)


def test_links_lead_somewhere() -> None:
    docs = Path(__file__).resolve().parent.parent / "docs"
    for page in (*docs.glob("*.md"), docs.parent / "README.md"):
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), (page.name, link)
