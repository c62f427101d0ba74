"""deploy/compose.yaml: its names fit together, each service is bounded and hardened, and its secrets are made by make-secrets."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from app.config import Settings
from tests.deployed import COMMANDS, DEPLOY, compose
from tests.processes import ROOT

FILE = compose()
SERVICES: dict[str, dict[str, Any]] = FILE["services"]
EACH = pytest.mark.parametrize("name", sorted(SERVICES))
PROGRAMS = pytest.mark.parametrize("name", [*COMMANDS, "web-b"])
WHOLE_VERSION = re.compile(r":v?\d+\.\d+(\.\d+)?(-[a-z]+)?$")


def known_settings() -> set[str]:
    return set(re.findall(r'read\.\w+\("([A-Z_]+)"', (ROOT / "app" / "config.py").read_text()))


@EACH
def test_a_service_is_bounded_and_hardened(name: str) -> None:
    service = SERVICES[name]
    limits = service["deploy"]["resources"]["limits"]
    assert {"cpus", "memory", "pids"} <= set(limits)
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["restart"] == ("no" if name == "migrate" else "unless-stopped")
    assert service.get("cap_add", []) == (["NET_BIND_SERVICE"] if name == "caddy" else [])
    assert "privileged" not in service and "/var/run/docker.sock" not in str(service.get("volumes"))


@EACH
def test_its_image_is_pinned_and_names_no_registry(name: str) -> None:
    image = SERVICES[name]["image"]
    if image != "punctual:${PUNCTUAL_VERSION:-local}":
        assert WHOLE_VERSION.search(image)
    assert not re.search(r"[.:]", image.split("/")[0]) or "/" not in image


@EACH
def test_what_it_refers_to_is_there(name: str) -> None:
    service = SERVICES[name]
    assert set(service.get("secrets", [])) <= set(FILE["secrets"])
    assert set(service["networks"]) <= set(FILE["networks"])
    for other, gate in service.get("depends_on", {}).items():
        assert gate == {"condition": "service_completed_successfully" if other == "migrate" else "service_healthy"}
        # The programs' health is asked by the image itself.
        assert "healthcheck" in SERVICES[other] or SERVICES[other]["image"].startswith("punctual:")
        # What always runs does not wait for what a profile brings.
        assert "profiles" not in SERVICES[other] or SERVICES[other]["profiles"] == service.get("profiles")
    for volume in service.get("volumes", []):
        source = volume.split(":")[0]
        assert (DEPLOY / source).exists() if source.startswith(".") else source in FILE["volumes"]


@EACH
def test_ports_of_the_stores_are_not_published_and_others_on_loopback_alone(name: str) -> None:
    ports = SERVICES[name].get("ports", [])
    if name in ("postgres", "redis"):
        assert ports == [] and set(SERVICES[name]["networks"]) == {"stores"}
        assert FILE["networks"]["stores"] == {"internal": True}
    elif name != "caddy":
        assert all(port.startswith("127.0.0.1:") for port in ports)


@PROGRAMS
def test_a_programs_environment_is_made_of_settings(name: str) -> None:
    environment = SERVICES[name]["environment"]
    files = {key.removesuffix("_FILE") for key in environment if key.endswith("_FILE")}
    assert {*files, *(key for key in environment if not key.endswith("_FILE"))} <= known_settings()
    # No secret stands in the file itself.
    assert {"DATABASE_URL", "REDIS_URL", "SECRET_KEY"} <= files
    for key in files:
        path = environment[f"{key}_FILE"]
        assert path.removeprefix("/run/secrets/") in SERVICES[name]["secrets"]


def test_programs_begin_when_the_migrations_are_in_and_the_stores_answer() -> None:
    for name in ("web", "web-b", "worker", "scheduler"):
        assert set(SERVICES[name]["depends_on"]) == {"postgres", "redis", "migrate"}
    assert SERVICES["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}


def test_two_workers_and_two_schedulers_run() -> None:
    assert [SERVICES[name]["deploy"]["replicas"] for name in ("worker", "scheduler")] == [2, 2]


def test_redis_keeps_what_it_has_and_refuses_rather_than_forgets() -> None:
    words = SERVICES["redis"]["command"]
    told = dict(zip(words[2::2], words[3::2], strict=True))
    assert told["--appendonly"] == "yes" and told["--maxmemory-policy"] == "noeviction"


def test_optional_parts_come_by_profile() -> None:
    profiles = {name: service["profiles"] for name, service in SERVICES.items() if "profiles" in service}
    assert profiles == {
        "receiver": ["demo"],
        "prometheus": ["monitoring"],
        "grafana": ["monitoring"],
        "caddy": ["tls"],
        "web-b": ["tls"],
    }


def test_fixed_addresses_are_outside_the_range_that_docker_gives_out() -> None:
    fixed = {
        (network, told["ipv4_address"])
        for service in SERVICES.values()
        if isinstance(service["networks"], dict)
        for network, told in service["networks"].items()
        if told and "ipv4_address" in told
    }
    assert len(fixed) == 2
    for network, address in fixed:
        (pool,) = FILE["networks"][network]["ipam"]["config"]
        assert ip_address(address) in ip_network(pool["subnet"])
        assert ip_address(address) not in ip_network(pool["ip_range"])
    # Nobody but Caddy may say on whose behalf it asks.
    trusted = ip_network(SERVICES["web"]["environment"]["TRUSTED_PROXIES"])
    assert trusted == ip_network(SERVICES["caddy"]["networks"]["front"]["ipv4_address"])


def make_secrets(folder: Path) -> dict[str, str]:
    subprocess.run([str(DEPLOY / "make-secrets"), str(folder)], check=True, capture_output=True)
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_make_secrets_makes_every_secret_and_keeps_those_that_are_there(tmp_path: Path) -> None:
    made = make_secrets(tmp_path / "secrets")
    wanted = {Path(secret["file"]).name for secret in FILE["secrets"].values()}
    assert set(made) == wanted and all(len(text.strip()) >= 32 for text in made.values())
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700
    # The containers' users must read them.
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "secrets").iterdir()} == {0o444}
    (tmp_path / "secrets" / "redis_url").unlink()
    assert make_secrets(tmp_path / "secrets") == made
    assert len({*made.values()}) == len(wanted)
    assert make_secrets(tmp_path / "others")["secret_key"] != made["secret_key"]


def test_the_secrets_that_are_made_are_settings_that_fit_the_stores(tmp_path: Path) -> None:
    made = make_secrets(tmp_path)
    environment = SERVICES["web"]["environment"]
    told = {
        key: path.replace("/run/secrets", str(tmp_path)) for key, path in environment.items() if key.endswith("_FILE")
    }
    settings = Settings.from_env({"PUNCTUAL_ENV": "production", **told})
    postgres = SERVICES["postgres"]["environment"]
    user, database = postgres["POSTGRES_USER"], postgres["POSTGRES_DB"]
    expected = f"postgresql+psycopg://{user}:{made['postgres_password']}@postgres/{database}"
    assert settings.database_url == expected
    password = made["redis.conf"].removeprefix("requirepass ").strip()
    assert settings.redis_url == f"redis://:{password}@redis:6379/0"
    assert settings.secret_key == made["secret_key"]


def test_docker_compose_takes_it() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker compose is not installed: compose.yaml is only looked at by the tests above")
    told = [docker, "compose", "-f", str(DEPLOY / "compose.yaml"), "--profile", "*", "config", "--quiet"]
    ran = subprocess.run(told, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert ran.returncode == 0, ran.stderr
    assert "obsolete" not in ran.stderr
