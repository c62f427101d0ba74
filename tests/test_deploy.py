"""deploy/ as a whole: one set of commands, the Dockerfile's rules, what gets into the image, how long a stop may take."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest
import yaml

from app.config import Settings
from tests.deployed import (
    BEFORE_STOP,
    BEFORE_STOP_SECONDS,
    COMMANDS,
    DEPLOY,
    DOCKERFILE,
    HEALTHCHECK,
    PROBE_PORT,
    RECORDING_SECONDS,
    compose,
    copies,
    image_command,
    image_environment,
    instructions,
    last_stage,
    manifests,
    stages,
    units,
)
from tests.processes import ROOT

PROFILES = {"receiver", "caddy", "prometheus", "grafana", "postgres", "redis"}


# One set of commands


def test_the_image_runs_web_unless_told_otherwise_and_looks_after_its_health() -> None:
    assert image_command() == COMMANDS["web"]
    (check,) = (argument for name, argument in last_stage() if name == "HEALTHCHECK")
    assert check.endswith(f"CMD {HEALTHCHECK}".replace("'", '"'))


def test_compose_starts_these_commands() -> None:
    services = compose()["services"]
    programs = {name: service["command"] for name, service in services.items() if name not in PROFILES}
    assert programs == {**COMMANDS, "web-b": COMMANDS["web"]}


def test_the_units_start_these_commands() -> None:
    started = {
        re.split(r"[@.]", name.removeprefix("punctual-"))[0]: shlex.split(unit["ExecStart"][0])
        for name, unit in units().items()
        if name.endswith(".service")
    }
    assert {
        name: [words[0].removeprefix("/opt/punctual/.venv/bin/"), *words[1:]] for name, words in started.items()
    } == COMMANDS


def test_the_manifests_start_these_commands() -> None:
    containers = [
        container
        for folder in ("programs", "migrate")
        for each in manifests(folder)
        if each["kind"] in ("Deployment", "Job")
        for container in each["spec"]["template"]["spec"]["containers"]
    ]
    assert {container["name"]: container["command"] for container in containers} == COMMANDS


def test_the_procfile_starts_these_commands() -> None:
    lines = (line.partition(":") for line in (ROOT / "Procfile").read_text().splitlines())
    told = {name: shlex.split(command) for name, _, command in lines}
    assert told == {"release" if name == "migrate" else name: command for name, command in COMMANDS.items()}


# A stop is long enough


def graces() -> Iterator[tuple[str, float, float]]:
    """Where, the seconds a program is given to stop, and those it may need."""
    services = compose()["services"]
    grace = float(services["web"]["environment"]["SHUTDOWN_GRACE_SECONDS"])
    for name in ("web", "web-b", "worker", "scheduler"):
        yield f"compose {name}", float(services[name]["stop_grace_period"].removesuffix("s")), grace
    example = dict(
        line.split("=", 1)
        for line in (DEPLOY / "systemd" / "punctual.env.example").read_text().splitlines()
        if "=" in line and not line.startswith("#")
    )
    for name, unit in units().items():
        if "TimeoutStopSec" in unit:
            yield name, float(unit["TimeoutStopSec"][0]), float(example["SHUTDOWN_GRACE_SECONDS"])
    (config,) = (each["data"] for each in manifests("config") if each["kind"] == "ConfigMap")
    for each in manifests("programs"):
        if each["kind"] == "Deployment":
            pod = each["spec"]["template"]["spec"]
            yield (
                each["metadata"]["name"],
                pod["terminationGracePeriodSeconds"],
                float(config["SHUTDOWN_GRACE_SECONDS"]),
            )


@pytest.mark.parametrize(("place", "given", "grace"), [*graces()], ids=[row[0] for row in graces()])
def test_a_program_is_given_longer_to_stop_than_it_may_need(place: str, given: float, grace: float) -> None:
    assert grace == Settings().shutdown_grace_seconds
    assert given >= BEFORE_STOP_SECONDS + grace + RECORDING_SECONDS


def test_web_says_that_it_leaves_before_it_is_stopped() -> None:
    services = compose()["services"]
    for name in ("web", "web-b"):
        assert [hook["command"] for hook in services[name]["pre_stop"]] == [BEFORE_STOP]
    (stop,) = units()["punctual-web.service"]["ExecStop"]
    assert [part.replace("$$", "$") for part in shlex.split(stop)] == ["/bin/sh", *BEFORE_STOP[1:]]
    (web,) = (
        each
        for each in manifests("programs")
        if each["kind"] == "Deployment" and each["metadata"]["name"] == "punctual-web"
    )
    assert web["spec"]["template"]["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"] == BEFORE_STOP


def test_caddy_asks_often_enough_to_see_a_web_leave() -> None:
    text = (DEPLOY / "caddy" / "Caddyfile").read_text()
    told = dict(re.findall(r"^\t\t(health_\w+|lb_try_duration) (\S+)$", text, re.MULTILINE))
    assert told["health_uri"] == "/readyz"
    seen_after = float(told["health_interval"].removesuffix("s")) + float(told["health_timeout"].removesuffix("s"))
    assert seen_after < BEFORE_STOP_SECONDS
    assert float(told["lb_try_duration"].removesuffix("s")) > 0
    aliases = {
        alias
        for service in compose()["services"].values()
        if isinstance(service["networks"], dict)
        for alias in (service["networks"].get("front") or {}).get("aliases", [])
    }
    upstreams = re.findall(r"(\S+):4000", re.findall(r"reverse_proxy (.*) \{", text)[0])
    assert len(upstreams) == 2 and set(upstreams) <= aliases | set(compose()["services"])


def test_prometheus_finds_the_services_at_the_ports_they_answer_on() -> None:
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    asked = {
        (name, sd["port"]) for job in config["scrape_configs"] for sd in job["dns_sd_configs"] for name in sd["names"]
    }
    services = compose()["services"]
    answered = {(name, int(services[name]["environment"]["PROBE_PORT"])) for name in ("worker", "scheduler")}
    assert asked == answered | {("web", Settings().port)}


# The Dockerfile


def violations(dockerfile: str) -> set[str]:
    """The rules that matter here, by the names hadolint gives them where it has one."""
    found = set()
    told = instructions(dockerfile)
    names = {argument.split()[-1] for name, argument in told if name == "FROM" and " AS " in argument.upper()}
    for name, argument in told:
        image = argument.split()[0] if argument else ""
        if name == "FROM" and image not in names:
            tag = image.rpartition("/")[2].partition(":")[2]
            if not re.match(r"\d+\.\d+\.\d+", tag):
                found.add("DL3006 the base's tag says the whole version")
            if "/" in image and re.search(r"[.:]", image.split("/")[0]):
                found.add("a registry's host")
        if name == "ADD":
            found.add("DL3020 ADD")
        if name in ("CMD", "ENTRYPOINT") and not argument.startswith("["):
            found.add("DL3025 no exec form")
        if name == "HEALTHCHECK" and not re.search(r'CMD \["', argument):
            found.add("DL3025 no exec form")
        if name == "WORKDIR" and not argument.startswith("/"):
            found.add("DL3000 WORKDIR is relative")
        if name == "RUN" and re.search(r"apt-get .*install", argument):
            if "rm -rf /var/lib/apt/lists/*" not in argument:
                found.add("DL3009 apt lists are kept")
            if "--no-install-recommends" not in argument:
                found.add("DL3015 recommended packages")
        if name == "RUN" and re.search(r"\bpip .*\binstall\b", argument):
            if "--require-hashes" not in argument:
                found.add("a requirement without a hash")
            if "--no-cache-dir" not in argument:
                found.add("DL3042 pip's cache")
        if name == "RUN" and re.search(r"\bsudo\b", argument):
            found.add("DL3004 sudo")
        if name in ("ENV", "ARG") and re.search(r"(PASSWORD|SECRET|TOKEN|_KEY)\w*=", argument):
            found.add("a secret in the image")
    final = stages(dockerfile)[-1]
    users = [argument for name, argument in final if name == "USER"]
    if not users or not re.fullmatch(r"[1-9]\d*(:[1-9]\d*)?", users[-1]):
        found.add("DL3002 the last user is root or has no number")
    if not any(name == "HEALTHCHECK" for name, _ in final):
        found.add("no HEALTHCHECK")
    return found


def test_the_dockerfile_keeps_the_rules() -> None:
    assert violations(DOCKERFILE.read_text()) == set()
    assert len(stages(DOCKERFILE.read_text())) == 2


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("python:3.11.13-slim-bookworm AS", "python AS", "DL3006 the base's tag says the whole version"),
        ("python:3.11.13-slim-bookworm\n", "python:latest\n", "DL3006 the base's tag says the whole version"),
        ("FROM python:3.11.13-slim-bookworm\n", "FROM mirror.example/python:3.11.13\n", "a registry's host"),
        ("COPY app app", "ADD app app", "DL3020 ADD"),
        ('CMD ["gunicorn", "-c", "gunicorn.conf.py", "wsgi:app"]', "CMD gunicorn wsgi:app", "DL3025 no exec form"),
        ('CMD ["python", "-m", "app.healthcheck"]', "CMD python -m app.healthcheck", "DL3025 no exec form"),
        ("WORKDIR /srv", "WORKDIR srv", "DL3000 WORKDIR is relative"),
        ("COPY app", "RUN apt-get update && apt-get install -y tini\nCOPY app", "DL3009 apt lists are kept"),
        (" --require-hashes", "", "a requirement without a hash"),
        (" --no-cache-dir", "", "DL3042 pip's cache"),
        ("PYTHONUNBUFFERED=1", "SECRET_KEY=1", "a secret in the image"),
        ("USER 10001:10001\n", "", "DL3002 the last user is root or has no number"),
        ("USER 10001:10001", "USER 0", "DL3002 the last user is root or has no number"),
        ("HEALTHCHECK", "LABEL check=", "no HEALTHCHECK"),
    ],
)  # fmt: skip
def test_each_rule_is_noticed_when_it_is_broken(old: str, new: str, rule: str) -> None:
    text = DOCKERFILE.read_text()
    assert old in text
    assert rule in violations(text.replace(old, new))


def test_the_image_gets_the_programs_and_nothing_else_leaves_the_repository() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    let_through = {line.removeprefix("!") for line in lines if line.startswith("!")}
    taken = {source for sources, _ in copies() for source in sources}
    assert let_through == taken | {"requirements.txt"}
    assert all((ROOT / name).exists() for name in let_through)


def test_what_the_image_sets_are_settings() -> None:
    environment = image_environment()
    assert environment["PUNCTUAL_ENV"] == "production"
    assert environment["DATA_DIR"].startswith("/tmp/")
    (exposed,) = (argument for name, argument in last_stage() if name == "EXPOSE")
    assert exposed.split() == [str(Settings().port), str(PROBE_PORT)]
