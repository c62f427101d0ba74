"""What running programs export to Prometheus, after real work, for the tests of what is built on it."""

from __future__ import annotations

from dataclasses import dataclass

import requests
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from app.demo_receiver import DemoReceiver
from tests.eventually import eventually
from tests.processes import Processes, free_port


@dataclass(frozen=True)
class Exported:
    """Families by the program that exports them."""

    web: list[Metric]
    worker: list[Metric]
    scheduler: list[Metric]

    @property
    def families(self) -> list[Metric]:
        return [*self.web, *self.worker, *self.scheduler]

    def labels(self) -> dict[str, set[str]]:
        """The labels of each sample by its name; `le` included."""
        found: dict[str, set[str]] = {}
        for family in self.families:
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
        return found

    def value(self, name: str, **labels: str) -> float:
        """The sum of the samples of that name with those labels."""
        return sum(
            sample.value
            for family in self.families
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )


def scraped(url: str) -> list[Metric]:
    answer = requests.get(f"{url}/metrics", timeout=10)
    assert answer.status_code == 200, answer.text
    return list(text_string_to_metric_families(answer.text))


def export(processes: Processes, receiver: DemoReceiver, api_key: str) -> Exported:
    """Starts web, worker and scheduler, lets one job of two queues succeed and one die, and scrapes all three."""
    ports = {"worker": free_port(), "scheduler": free_port()}
    processes.worker(PROBE_PORT=str(ports["worker"]))
    processes.scheduler(PROBE_PORT=str(ports["scheduler"]))
    web = processes.web(DATA_DIR=str(processes.logs / "data"))
    headers = {"Authorization": f"Bearer {api_key}"}
    for queue, path in (("default", "hook"), ("mail", "hook-fail")):
        job = {
            "type": "test",
            "payload": {},
            "callback_url": f"{receiver.url}/{path}",
            "queue": queue,
            "max_attempts": 1,
        }
        assert requests.post(f"{web}/v1/jobs", json=job, headers=headers, timeout=10).status_code == 201

    def all_three() -> Exported:
        urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
        return Exported(scraped(web), scraped(urls["worker"]), scraped(urls["scheduler"]))

    def is_done() -> bool:
        try:
            found = all_three()
        except requests.ConnectionError:
            return False
        totals = [found.value(f"jobs_{name}_total") for name in ("completed", "dead")]
        return totals == [1, 1] and found.value("scheduler_leads") == 1

    eventually(is_done, timeout=30)
    return all_three()
