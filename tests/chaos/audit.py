"""Counts, when all is quiet, whether every promise was kept: what the receiver saw against what PostgreSQL says and was accepted."""

from __future__ import annotations

import json
import re
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.chaos.driver import CONCURRENCY, KINDS, LIMITED, Driver
from tests.chaos.fleet import Fleet

Line = dict[str, Any]
# Keys that may stay: what the queues' limits are, and what marks Redis as filled.
MAY_STAY = (
    "{punctual}:epoch",
    "{punctual}:limits",
    "{punctual}:ready",
    "{punctual}:asleep",
    "{punctual}:rates",
    "{punctual}:bad",
)
# Host and PostgreSQL are one machine here, and its clock is read to the microsecond by one, as a float by the other.
CLOCK_SLACK_SECONDS = 0.001


@dataclass
class Report:
    """`figures` are for people; `wrong` holds every promise that was broken, and must be empty."""

    figures: dict[str, object] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def expect_none(self, what: str, found: list[Any]) -> None:
        self.figures[what] = len(found)
        if found:
            self.wrong.append(f"{what}: {len(found)}, such as {found[:3]}")

    def show(self) -> str:
        width = max(len(name) for name in self.figures)
        lines = [f"{name:<{width}}  {value}" for name, value in self.figures.items()]
        return "\n".join([*lines, *(f"WRONG  {each}" for each in self.wrong)])


def wait_until_quiet(fleet: Fleet, seconds: float) -> bool:
    """Nothing waits or runs any more, but for cron entries, which are paused first."""
    with fleet.postgres() as conn:
        conn.execute("UPDATE cron_entries SET enabled = false, paused_at = punctual_now()")
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            row = conn.execute(
                "SELECT count(*) FROM jobs WHERE status IN ('pending', 'scheduled', 'running')"
            ).fetchone()
            if row is not None and row[0] == 0:
                # What a worker acknowledges last, and slots that a dead one held.
                return _redis_is_empty(fleet, deadline)
            time.sleep(0.2)
    return False


def _redis_is_empty(fleet: Fleet, deadline: float) -> bool:
    while time.monotonic() < deadline:
        if not _left_in_redis(fleet):
            return True
        time.sleep(0.5)
    return False


def _left_in_redis(fleet: Fleet) -> list[str]:
    with fleet.redis() as client:
        keys: Any = client.keys("*")
        left = [key.decode() for key in keys if key.decode() not in MAY_STAY and ":rate:" not in key.decode()]
        if client.xlen("{punctual}:ready"):
            left.append("entries in the ready stream")
        return left


def audit(fleet: Fleet, driver: Driver, is_quiet: bool) -> Report:
    report = Report()
    with fleet.postgres() as conn:
        conn.execute("SET timezone = 'UTC'")
        columns = (
            "id, status, attempts, max_attempts, attempts_before, scheduled_for, type, last_error_class, cron_entry_id"
        )
        jobs = {str(row[0]): row for row in conn.execute(f"SELECT {columns} FROM jobs").fetchall()}
        lost = Counter(
            str(row[0]) for row in conn.execute("SELECT job_id FROM executions WHERE status = 'lost'").fetchall()
        )
        cron = conn.execute(
            "SELECT cron_entry_id, scheduled_for, count(*) FROM jobs WHERE cron_entry_id IS NOT NULL GROUP BY 1, 2"
        ).fetchall()
        fired = conn.execute("SELECT count(*) FROM cron_occurrences WHERE status = 'fired'").fetchone()
        skipped = conn.execute("SELECT count(*) FROM cron_occurrences WHERE status = 'skipped'").fetchone()
    # A late result takes the place of its own lost attempt (C10), so the leader's word counts too.
    lost.update(job_id for job_id in _declared_lost(fleet) if job_id not in lost)
    lines = [json.loads(line) for line in fleet.requests_file.read_text().splitlines()]
    seen: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        seen[line["job"]].append(line)

    report.figures |= {
        "jobs accepted": len(driver.accepted),
        "requests received": len(lines),
        "submissions sent again": dict(driver.errors),
        "processes that died": dict(fleet.deaths),
        "attempts lost": sum(lost.values()),
        "cron jobs": sum(row[2] for row in cron),
        "cron times skipped": 0 if skipped is None else skipped[0],
    }
    if fleet.is_sound:
        report.expect_none("requests that failed", list(driver.errors.items()))
        report.expect_none("attempts lost though all was in order", list(lost))
        report.expect_none("processes that died though none was killed", list(fleet.deaths.items()))
    if not is_quiet:
        report.wrong.append("not quiet in time")
    report.expect_none("accepted and gone", [job_id for job_id in driver.accepted if job_id not in jobs])
    report.expect_none(
        "left waiting or running", [j for j, row in jobs.items() if row[1] not in ("done", "dead", "cancelled")]
    )
    endings = [(job_id, *_ending(driver, jobs[job_id], lost[job_id])) for job_id in driver.accepted if job_id in jobs]
    report.expect_none("ended as they may not", [each[:2] for each in endings if not each[2]])
    report.figures["dead by lost attempts alone"] = sum(
        1 for each in endings if each[1] == "dead" and KINDS[driver.accepted[each[0]].kind][1] == "done"
    )
    report.expect_none(
        "done and never received",
        [j for j, row in jobs.items() if row[1] == "done" and not any(x["ok"] for x in seen[j])],
    )
    report.expect_none(
        "received before their time", [x["job"] for x in lines if x["job"] in jobs and _is_early(x, jobs[x["job"]][5])]
    )
    sends = Counter((x["job"], x["attempt"]) for x in lines)
    report.expect_none("attempts sent twice", [key for key, count in sends.items() if count > 1])
    again = [j for j, ended in seen.items() if sum(x["ok"] for x in ended) > 1]
    report.figures["delivered more than once"] = len(again)
    report.expect_none("delivered more than once without a lost attempt", [j for j in again if not lost[j]])
    report.expect_none("beyond their attempts", [j for j, row in jobs.items() if row[2] > row[3]])
    report.expect_none("cron times with more than one job", [row[:2] for row in cron if row[2] != 1])
    report.expect_none(
        "cron times fired without a job", [] if fired is None or fired[0] == len(cron) else [(fired[0], len(cron))]
    )
    most = _most_at_once([x for x in lines if x["queue"] == LIMITED])
    report.figures["most of the limited queue at once"] = most
    if most > CONCURRENCY:
        report.wrong.append(f"{most} calls of a queue with room for {CONCURRENCY} were under way at once")
    report.expect_none("left in Redis", _left_in_redis(fleet))
    return report


def _declared_lost(fleet: Fleet) -> list[str]:
    """The jobs of attempts that the leader found lost, by its log."""
    told = re.compile(r"attempt_lost .*job_id=([0-9a-f-]{36})")
    logs = (log.read_text(errors="replace") for log in fleet.folder.glob("scheduler-*.log"))
    return [job_id for log in logs for job_id in told.findall(log)]


def _ending(driver: Driver, row: tuple[Any, ...], lost: int) -> tuple[str, bool]:
    job_id, status, attempts, max_attempts = str(row[0]), row[1], row[2], row[3]
    expected = KINDS[driver.accepted[job_id].kind][1]
    if status == "dead" and expected == "done":
        # Only where lost attempts, and nothing else, used up what was left after the receiver's refusals.
        return status, attempts >= max_attempts and lost > 0
    if expected == "cancelled":
        return status, status == "cancelled" or (status == "done" and job_id not in driver.cancelled)
    return status, status == expected


def _is_early(line: Line, due_at: datetime) -> bool:
    return float(line["at"]) < due_at.timestamp() - CLOCK_SLACK_SECONDS


def _most_at_once(lines: list[Line]) -> int:
    changes = [(line["at"], 1) for line in lines] + [(line["until"], -1) for line in lines]
    under_way = most = 0
    for _, change in sorted(changes):
        under_way += change
        most = max(most, under_way)
    return most
