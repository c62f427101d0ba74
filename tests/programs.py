"""System programs that some tests need: skipped by name where one is missing, and a failure in CI unless it is another language's."""

from __future__ import annotations

import os
import shutil

import pytest


def requires_program(*names: str) -> str:
    """The path of the first of `names` that is installed."""
    for name in names:
        if found := shutil.which(name):
            return found
    missing = f"{' or '.join(names)} is not installed, and this test needs it"
    if os.environ.get("CI") == "true":
        pytest.fail(missing)
    pytest.skip(missing)


def other_language(name: str) -> str:
    """The path of a program that nobody needs to work on Punctual; skipped by name where it is missing, in CI too."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: what the documents show for it is not tried here")
    return found
