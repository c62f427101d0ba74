"""The benchmarks run: small ones, whose times say nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.processes import ROOT


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("pages", "--jobs", "300"), "API: its executions"), (("cron_burst", "--entries", "50"), "50 entries")],
)
def test_a_part_runs_to_its_end(arguments: tuple[str, ...], words: str) -> None:
    command = [sys.executable, "-m", "bench", *arguments, "--keep-nothing"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert words in ended.stdout, ended.stderr
    # 1 says that something took too long, which means nothing here.
    assert ended.returncode in (0, 1), ended.stderr
    assert "Traceback" not in ended.stderr
