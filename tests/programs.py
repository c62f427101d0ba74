"""System programs that some tests need: skipped by name where one is missing, and a failure in CI."""

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
