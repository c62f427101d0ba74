"""deploy/prometheus, deploy/grafana and docs/metrics.md against what a running system exports."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
import yaml
from flask import Flask

from app.demo_receiver import DemoReceiver
from tests.exported import Exported, export
from tests.processes import ROOT, Processes

PROMETHEUS = ROOT / "deploy" / "prometheus"
RULES = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"][0]["rules"]
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "punctual.json").read_text())
DOCUMENT = (ROOT / "docs" / "metrics.md").read_text()


def expressions() -> Iterator[tuple[str, str]]:
    """Where each expression stands, and the expression as Prometheus gets it."""
    for rule in RULES:
        yield rule["alert"], rule["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"].replace("$__rate_interval", "1m")


def selectors(node: Any) -> Iterator[Any]:
    """The selectors of one metric in a parsed expression."""
    if type(node).__name__ == "VectorSelector":
        yield node
    for name in ("lhs", "rhs", "expr", "args", "vector_selector", "vs"):
        child = getattr(node, name, None)
        for each in child if isinstance(child, list) else [child]:
            if each is not None:
                yield from selectors(each)


def test_what_is_asked_for_and_what_is_documented_is_what_a_running_system_exports(
    app: Flask, processes: Processes, receiver: DemoReceiver, api_key: str
) -> None:
    """One test, for starting three programs takes seconds."""
    exported = export(processes, receiver, api_key)
    assert_counts(exported)
    assert_documented(exported)
    assert_asked_for(exported)


def assert_counts(exported: Exported) -> None:
    for queue, outcome in (("default", "succeeded"), ("mail", "dead")):
        labels = {"client": "tests", "queue": queue}
        assert exported.value("jobs_submitted_total", **labels) == 1
        assert exported.value("attempts_total", **labels, outcome=outcome) == 1
    for name in ("start_lag_seconds", "callback_seconds"):
        assert exported.value(f"{name}_count") == 2
    assert exported.value("claim_seconds_count") >= 1 and exported.value("record_seconds_count") >= 1
    assert exported.value("worker_concurrency") == 128
    assert exported.value("postgresql_pool_size") == 10 + 4 + 10
    assert exported.value("scheduler_loop_age_seconds", loop="promoter") < 5


def assert_asked_for(exported: Exported) -> None:
    known = exported.labels()
    asked = set()
    for where, expression in expressions():
        for selector in selectors(promql_parser.parse(expression)):
            asked.add(selector.name)
            assert selector.name in known, f"{where}: nobody exports {selector.name}"
            for matcher in selector.matchers.matchers:
                assert matcher.name in known[selector.name], f"{where}: {selector.name} has no {matcher.name}"
    assert len(asked) > 30


def assert_documented(exported: Exported) -> None:
    """The table names each family, in full, with its labels."""
    table = DOCUMENT.split("## Every metric")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([a-z_]+)` \|([^|]*)\|([^|]*)\|", table, re.MULTILINE)
    documented = {name: set(re.findall(r"`(\w+)`", labels)) for name, labels, _ in rows}
    found: dict[str, set[str]] = {}
    for family in exported.families:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        found.setdefault(name, set()).update(labels)
    assert documented == found
    assert len(rows) == len(documented)
    programs = {"web": exported.web, "worker": exported.worker, "scheduler": exported.scheduler}
    for name, _, sources in rows:
        by = {
            program
            for program, families in programs.items()
            if name in {f"{family.name}_total" if family.type == "counter" else family.name for family in families}
        }
        assert by == set(sources.strip().split(", ")), name


def test_every_expression_is_one() -> None:
    for where, expression in expressions():
        assert promql_parser.parse(expression) is not None, where
    with pytest.raises(ValueError):
        promql_parser.parse("max(a_total[5m")


def test_every_rule_says_what_is_wrong_what_to_do_and_is_documented() -> None:
    assert len(RULES) > 8
    for rule in RULES:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert all(
            rule["annotations"][name].endswith((".", "worker", "scheduler")) for name in ("summary", "description")
        )
    assert re.findall(r"^\| `(Punctual\w+)` \|", DOCUMENT, re.MULTILINE) == [rule["alert"] for rule in RULES]


def test_panels_do_not_lie_on_each_other() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        for cell in ((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])):
            assert taken.setdefault(cell, panel["title"]) == panel["title"]
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))


def test_the_configuration_loads_the_rules() -> None:
    config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
    assert [(PROMETHEUS / name).exists() for name in config["rule_files"]] == [True]
    assert [job["job_name"] for job in config["scrape_configs"]] == [
        "punctual-web",
        "punctual-worker",
        "punctual-scheduler",
    ]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize("command", [("rules", "alerts.yml"), ("config", "prometheus.yml")])
def test_promtool_has_nothing_to_say(command: tuple[str, str]) -> None:
    subprocess.run(["promtool", "check", *command], cwd=PROMETHEUS, check=True)
