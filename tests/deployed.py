"""What deploy/ starts, and readers of its files, for the tests of it."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.processes import ROOT

DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
DOCKERFILE = DEPLOY / "Dockerfile"

# What a program is started with, everywhere: image, compose.yaml, units, manifests and Procfile.
COMMANDS = {
    "web": ["gunicorn", "-c", "gunicorn.conf.py", "wsgi:app"],
    "worker": ["python", "-m", "worker"],
    "scheduler": ["python", "-m", "scheduler"],
    "migrate": ["flask", "--app", "wsgi", "db", "upgrade"],
}
# What web does some seconds before it is stopped.
BEFORE_STOP = ["sh", "-c", 'touch "$DATA_DIR/leaving" && sleep 6']
BEFORE_STOP_SECONDS = 6
HEALTHCHECK = ["python", "-m", "app.healthcheck"]
PROBE_PORT = 8081
# A worker's wind-down takes its grace and then, at the worst, so long to join its stages and to record.
RECORDING_SECONDS = 15


def instructions(dockerfile: str) -> list[tuple[str, str]]:
    """(instruction, argument) of a Dockerfile, without comments, continued lines joined."""
    lines = "\n".join(line for line in dockerfile.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\s*\n", " ", lines)
    pairs = (line.strip().partition(" ") for line in joined.splitlines() if line.strip())
    return [(name.upper(), " ".join(argument.split())) for name, _, argument in pairs]


def stages(dockerfile: str) -> list[list[tuple[str, str]]]:
    """The instructions of each stage; what stands before the first FROM is left out."""
    found: list[list[tuple[str, str]]] = []
    for name, argument in instructions(dockerfile):
        if name == "FROM":
            found.append([])
        if found:
            found[-1].append((name, argument))
    return found


def last_stage() -> list[tuple[str, str]]:
    return stages(DOCKERFILE.read_text())[-1]


def image_environment() -> dict[str, str]:
    """What ENV sets in the image."""
    return dict(
        part.split("=", 1) for name, argument in last_stage() if name == "ENV" for part in shlex.split(argument)
    )


def copies() -> list[tuple[list[str], str]]:
    """(sources, target) of what the last stage takes from the repository."""
    found = [argument.split() for name, argument in last_stage() if name == "COPY" and "--from=" not in argument]
    return [(parts[:-1], parts[-1]) for parts in found]


def image_command() -> list[str]:
    (command,) = (json.loads(argument) for name, argument in last_stage() if name == "CMD")
    return list(command)


def compose() -> dict[str, Any]:
    """compose.yaml with its anchors and merges resolved, and `$$` as the container gets it."""
    return dict(yaml.safe_load((DEPLOY / "compose.yaml").read_text().replace("$$", "$")))


def units() -> dict[str, dict[str, list[str]]]:
    """The lines of each unit by their key, over all sections."""
    found: dict[str, dict[str, list[str]]] = {}
    for path in sorted((DEPLOY / "systemd").glob("punctual*.*")):
        if path.suffix not in (".service", ".target"):
            continue
        lines: dict[str, list[str]] = {}
        for line in path.read_text().splitlines():
            if "=" in line and not line.startswith("#"):
                key, _, value = line.partition("=")
                lines.setdefault(key, []).append(value)
        found[path.name] = lines
    return found


def manifests(folder: str, kubectl: str | None = None) -> list[dict[str, Any]]:
    """Every object below a kustomization, built by kubectl when there is one, else gathered from the files it names."""
    if kubectl is not None:
        built = subprocess.run([kubectl, "kustomize", str(KUBERNETES / folder)], capture_output=True, check=True).stdout
        return [dict(each) for each in yaml.safe_load_all(built)]
    return list(_gathered(KUBERNETES / folder))


def _gathered(folder: Path) -> Iterator[dict[str, Any]]:
    for resource in yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]:
        path = (folder / resource).resolve()
        if path.is_dir():
            yield from _gathered(path)
        else:
            yield from yaml.safe_load_all(path.read_text())
