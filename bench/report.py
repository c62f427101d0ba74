"""What every part writes beside its figures: on what they were measured."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"


def surroundings(conn: Connection) -> dict[str, Any]:
    """Machine, versions and commit."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "postgresql": conn.execute(text("SHOW server_version")).scalar_one(),
    }


def write(part: str, found: dict[str, Any]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{part}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
