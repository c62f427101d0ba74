"""`make bench ARGS=peers`: what Punctual is measured against, in a place of its own under var/bench. Needs the network."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from bench.report import ROOT

PLACE = ROOT / "var" / "bench"
PYTHON = PLACE / "venv" / "bin" / "python"
NODE = PLACE / "bullmq"
PACKAGES = ("celery[redis]", "dramatiq[redis]", "requests")
SOURCES = Path(__file__).resolve().parent


def has_python() -> bool:
    return PYTHON.exists()


def has_node() -> bool:
    return (NODE / "node_modules" / "bullmq").is_dir() and shutil.which("node") is not None


def main() -> int:
    argparse.ArgumentParser(prog="make bench ARGS=peers", description=__doc__).parse_args()
    PLACE.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", PLACE / "venv"], check=True)
    subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    if shutil.which("npm") is None:
        print("npm is not here: BullMQ is left out", file=sys.stderr)
        return 0
    shutil.copytree(SOURCES / "bullmq", NODE, dirs_exist_ok=True)
    subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund"], cwd=NODE, check=True)
    return 0
