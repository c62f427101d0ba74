"""docs/configuration.md names every variable that app/config.py reads, and no other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_documented_settings_are_those_that_are_read() -> None:
    read = set(re.findall(r'read\.\w+\("([A-Z_]+)"', (ROOT / "app/config.py").read_text()))
    documented = set(re.findall(r"^\| `([A-Z_]+)` \|", (ROOT / "docs/configuration.md").read_text(), re.MULTILINE))
    assert read == documented
    assert len(read) > 20


def test_every_link_of_the_readme_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", (ROOT / "README.md").read_text())
    assert links and all((ROOT / link).exists() for link in links)
