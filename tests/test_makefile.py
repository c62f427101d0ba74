"""The Makefile on machines that lack something: a plain sentence says what to install."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.processes import ROOT
from tests.programs import requires_program

# Stands for a Python that is there and says no to the question with this word in it.
PYTHON = """#!/bin/sh
case "$*" in
    *%s*) exit 1;;
    -V) echo "Python 3.10.1";;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("Makefile", "requirements.txt", "requirements-dev.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def make(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [requires_program("make"), *arguments]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False, timeout=60)


def python_that_lacks(checkout: Path, word: str) -> str:
    program = checkout / "python"
    program.write_text(PYTHON % word)
    program.chmod(0o755)
    return f"PYTHON={program}"


@pytest.mark.parametrize("target", ["up", "test", "check"])
def test_an_old_python_is_named_with_what_is_needed(checkout: Path, target: str) -> None:
    ran = make(checkout, target, python_that_lacks(checkout, "version_info"))
    assert ran.returncode != 0
    assert "Punctual needs Python 3.11 or newer" in ran.stdout
    assert "is Python 3.10.1" in ran.stdout


def test_a_missing_venv_module_gets_a_plain_sentence(checkout: Path) -> None:
    ran = make(checkout, "up", python_that_lacks(checkout, "ensurepip"))
    assert ran.returncode != 0
    assert "Python's venv module is missing: install it (Debian and Ubuntu: apt-get install python3-venv)" in ran.stdout


def test_a_missing_python_gets_a_plain_sentence(checkout: Path) -> None:
    ran = make(checkout, "up", "PYTHON=no-such-python")
    assert ran.returncode != 0
    assert "Python is missing: install Python 3.11 or newer" in ran.stdout


def test_help_names_each_target_and_touches_nothing(checkout: Path) -> None:
    (checkout / ".venv").mkdir()
    before = sorted(checkout.rglob("*"))
    listed = make(checkout).stdout
    for target in ("help", "up", "demo", "test", "check", "format", "lock", "clean"):
        assert f"  {target}\t" in listed
    assert sorted(checkout.rglob("*")) == before


def test_a_broken_environment_is_made_anew(checkout: Path) -> None:
    python = checkout / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to("/no/such/python")
    ran = make(checkout, "up", "PYTHON=no-such-python")
    assert "Python is missing" in ran.stdout
    assert not python.is_symlink()
