"""docs/deploy.md: its blocks are run or say that they are not, and what it names is there."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from app.config import Settings
from tests.deployed import COMMANDS, DEPLOY, PROBE_PORT, compose, units
from tests.processes import ROOT

DOCUMENT = (ROOT / "docs" / "deploy.md").read_text()
MARK = "# not run by a test\n"
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", DOCUMENT, re.DOTALL | re.MULTILINE)
RUN = [block for block in BLOCKS if not block.startswith(MARK)]


def test_all_code_is_in_such_blocks() -> None:
    assert DOCUMENT.count("```") == 2 * len(BLOCKS)
    assert 2 <= len(RUN) < len(BLOCKS)


@pytest.mark.parametrize("block", RUN)
def test_a_block_that_is_not_marked_runs(block: str, tmp_path: Path) -> None:
    for line in block.splitlines():
        if shutil.which(line.split()[0]) is None and not (ROOT / line.split()[0]).is_file():
            pytest.skip(f"{line.split()[0]} is not installed")
    shutil.copytree(DEPLOY, tmp_path / "deploy", ignore=shutil.ignore_patterns("secrets"))
    ran = subprocess.run(["sh", "-euc", block], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0 and ran.stdout, ran.stderr


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_is_what_a_shell_takes(block: str) -> None:
    ran = subprocess.run(["sh", "-n"], input=block, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_the_commands_are_those_that_are_started() -> None:
    told = dict(re.findall(r"^\| (\w+) \| `([^`]+)` \|", DOCUMENT, re.MULTILINE))
    assert told == {name: " ".join(command) for name, command in COMMANDS.items()}


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\bdeploy/[\w./-]*\w", DOCUMENT)) - {"deploy/secrets"}))
def test_a_file_that_is_named_is_there(path: str) -> None:
    if path == "deploy/secrets/grafana_password":
        assert path.removeprefix("deploy/") in compose()["secrets"]["grafana_password"]["file"]
    elif path != "deploy/punctual-web":  # a Deployment of kubectl's
        assert (ROOT / path).exists()


def test_its_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#:]+)[)#]", DOCUMENT)
    assert links and all((ROOT / "docs" / link).exists() for link in links)


def test_services_units_and_ports_are_named_as_they_are() -> None:
    defaults = Settings()
    for port in (defaults.port, PROBE_PORT, defaults.receiver_port):
        assert re.search(rf"^\| {port}\b|^\| .*\b{port}\b", DOCUMENT, re.MULTILINE)
    told = {
        re.sub(r"@\d", "@", name) for name in re.findall(r"punctual-(?:web|worker|scheduler|migrate)(?:@\d)?", DOCUMENT)
    }
    assert told == {name.removesuffix(".service") for name in units() if name.endswith(".service")}
    services = set(compose()["services"])
    for words in re.findall(
        r"-f deploy/compose.yaml (?:exec(?: -T)?|run --rm|stop) ([a-z -]+?)(?: flask| pg_\w+|  |$)",
        DOCUMENT,
        re.MULTILINE,
    ):
        assert set(words.split()) <= services
    profiles = {profile for service in compose()["services"].values() for profile in service.get("profiles", [])}
    assert set(re.findall(r"--profile (\w+)", DOCUMENT)) == profiles
