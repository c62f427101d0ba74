"""deploy/systemd: systemd takes the units, they are closed enough, and what they refer to is there."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from app.config import Settings
from tests.deployed import DEPLOY, units
from tests.processes import ROOT
from tests.test_deploy_compose import known_settings

SYSTEMD = DEPLOY / "systemd"
UNITS = units()
SERVICES = sorted(name for name in UNITS if name.endswith(".service"))
# systemd's own measure, 0 to 10: what talks to a network and to stores does not come below 1.
EXPOSED_AT_MOST = 1.5


def values(unit: str, key: str) -> list[str]:
    return [word for line in UNITS[unit].get(key, []) for word in line.split()]


def environment(unit: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in values(unit, "Environment"))


def test_there_is_a_unit_for_each_program_and_a_target() -> None:
    assert sorted(UNITS) == [
        "punctual-migrate.service",
        "punctual-scheduler@.service",
        "punctual-web.service",
        "punctual-worker@.service",
        "punctual.target",
    ]


def test_the_target_wants_units_that_are_there() -> None:
    wanted = values("punctual.target", "Wants")
    assert len(wanted) == 5
    assert {re.sub(r"@\w+\.", "@.", name) for name in wanted} == set(SERVICES) - {"punctual-migrate.service"}
    for name in {*SERVICES} - {"punctual-migrate.service"}:
        assert values(name, "PartOf") == values(name, "WantedBy") == ["punctual.target"]
        assert "punctual-migrate.service" in values(name, "Wants") and "punctual-migrate.service" in values(
            name, "After"
        )


@pytest.mark.parametrize("name", SERVICES)
def test_a_units_environment_is_made_of_settings(name: str) -> None:
    told = environment(name)
    of_python = {"PYTHONTZPATH", "PYTHONDONTWRITEBYTECODE"}
    files = {key.removesuffix("_FILE"): value for key, value in told.items() if key.endswith("_FILE")}
    assert {*files, *(key for key in told if not key.endswith("_FILE"))} - of_python <= known_settings()
    credentials = dict(word.split(":", 1) for word in values(name, "LoadCredential"))
    assert {"%d/" + credential for credential in credentials} == set(files.values())
    assert set(files) == {"DATABASE_URL", "REDIS_URL", "SECRET_KEY"}
    assert told["DATA_DIR"] == f"/var/lib/{UNITS[name]['StateDirectory'][0]}"


def test_the_example_of_the_environment_is_sound_and_holds_no_secret() -> None:
    lines = [line for line in (SYSTEMD / "punctual.env.example").read_text().splitlines() if line and line[0] != "#"]
    told = dict(line.split("=", 1) for line in lines)
    assert set(told) <= known_settings()
    assert not {"DATABASE_URL", "REDIS_URL", "SECRET_KEY"} & set(told)
    settings = Settings.from_env({**told, "PUNCTUAL_ENV": "production", "SECRET_KEY": "of the tests"})
    assert settings.host == "127.0.0.1"


def test_each_instance_answers_on_a_port_of_its_own() -> None:
    ports = {
        environment(f"punctual-{name}@.service")["PROBE_PORT"].replace("%i", i)
        for name in ("worker", "scheduler")
        for i in "12"
    }
    assert ports == {"4101", "4102", "4201", "4202"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with our units, the system's own, and what they start."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: the units are only looked at by the other tests")
    target = tmp_path / "root"
    shutil.copytree("/lib/systemd/system", target / "lib/systemd/system", symlinks=True)
    (target / "etc/systemd/system").mkdir(parents=True)
    for name in UNITS:
        shutil.copy(SYSTEMD / name, target / "etc/systemd/system" / name)
    for program in (
        "opt/punctual/.venv/bin/gunicorn",
        "opt/punctual/.venv/bin/python",
        "opt/punctual/.venv/bin/flask",
        "bin/sh",
        "bin/kill",
    ):
        path = target / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o755)
    return target


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False)


def instance(name: str) -> str:
    return name.replace("@.", "@1.")


def test_systemd_takes_every_unit(root: Path) -> None:
    ran = analyze("verify", "--man=no", f"--root={root}", *(instance(name) for name in UNITS))
    # What it says of the system's own units is not ours.
    assert [line for line in ran.stderr.splitlines() if "punctual" in line.replace(str(root), "")] == []
    assert ran.returncode == 0


def test_systemd_would_refuse_a_broken_unit(root: Path) -> None:
    """So that the test above is known to see something."""
    web = root / "etc/systemd/system/punctual-web.service"
    web.write_text(web.read_text().replace("ProtectHome=yes", "ProtectHome=maybe").replace("Restart=", "Restrat="))
    ran = analyze("verify", "--man=no", f"--root={root}", web.name)
    assert "Restrat" in ran.stderr and "protect home" in ran.stderr


@pytest.mark.parametrize("name", SERVICES)
def test_a_unit_is_closed(name: str, root: Path) -> None:
    ran = analyze("security", "--offline=yes", f"--root={root}", "--no-pager", instance(name))
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", ran.stdout)
    assert found is not None, ran.stderr
    assert float(found[1]) <= EXPOSED_AT_MOST
    assert values(name, "User") == values(name, "Group") == ["punctual"]


def test_the_units_name_a_document_that_is_there() -> None:
    for name in UNITS:
        assert (ROOT / values(name, "Documentation")[0].removeprefix("file:/opt/punctual/")).is_file()
