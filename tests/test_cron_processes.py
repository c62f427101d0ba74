"""Cron with real scheduler processes: killed, stopped, absent, on wrong clocks. PostgreSQL's time is moved, so minutes pass fast."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text

from tests.eventually import eventually
from tests.factories import make_client, make_entry
from tests.processes import Processes
from tests.shifted_time import shift

MINUTE = timedelta(minutes=1)
LEADER_PID = text(
    "SELECT p.pid FROM leader l JOIN processes p ON p.id = l.holder WHERE l.expires_at > punctual_now() AND p.lost_at IS NULL"
)


class Minutes:
    """PostgreSQL's time, set forward minute by minute."""

    def __init__(self, conn: Connection) -> None:
        self.conn = conn
        self.ahead = 0

    def pass_by(self, minutes: int = 1) -> None:
        self.ahead += minutes
        shift(self.conn, self.ahead * 60)


@pytest.fixture
def minutes(minute_begins: None, db_conn: Connection) -> Iterator[Minutes]:
    yield Minutes(db_conn)
    shift(db_conn, 0)


@pytest.fixture
def entry_id(db_conn: Connection) -> int:
    """`* * * * *`, overlap `allow`; its first time is the minute to come."""
    entry_id = make_entry(db_conn, make_client(db_conn))
    db_conn.execute(text("UPDATE cron_entries SET next_run_at = next_run_at + interval '1 minute'"))
    return entry_id


def fired(conn: Connection) -> list[datetime]:
    """The nominal times that have a job, in order."""
    query = text(
        "SELECT o.nominal_at FROM cron_occurrences o JOIN jobs j ON j.id = o.job_id AND j.scheduled_for = o.nominal_at ORDER BY 1"
    )
    return list(conn.execute(query).scalars())


def count(conn: Connection, what: str) -> int:
    return int(conn.execute(text(f"SELECT count(*) FROM {what}")).scalar_one())


def leader_pid(conn: Connection) -> int | None:
    return conn.execute(LEADER_PID).scalar_one_or_none()


def wait_for_leader(conn: Connection, *others: int | None) -> int:
    """The process that leads, which is none of `others`."""

    def ask() -> int | None:
        pid = leader_pid(conn)
        return None if pid in others else pid

    return eventually(ask, timeout=20) or 0


def wait_for_schedulers(conn: Connection, wanted: int) -> None:
    eventually(lambda: count(conn, "processes WHERE kind = 'scheduler'") == wanted, timeout=20)


def assert_one_job_a_minute(conn: Connection) -> list[datetime]:
    times = fired(conn)
    assert [later - earlier for earlier, later in pairwise(times)] == [MINUTE] * (len(times) - 1)
    assert count(conn, "jobs") == len(times) == count(conn, "cron_occurrences")
    return times


def test_three_schedulers_of_which_one_is_killed_again_and_again_make_one_job_a_minute(
    processes: Processes, minutes: Minutes, db_conn: Connection, entry_id: int
) -> None:
    schedulers = [processes.scheduler() for _ in range(3)]
    wait_for_leader(db_conn)
    wait_for_schedulers(db_conn, 3)
    while minutes.ahead < 60:
        minutes.pass_by()
        if minutes.ahead % 8 == 4:
            # Now the leader, now a standby.
            is_leaders_turn = minutes.ahead % 16 == 4
            victim = next((s for s in schedulers if (s.pid == leader_pid(db_conn)) is is_leaders_turn), schedulers[0])
            victim.kill()
            schedulers = [processes.scheduler() if s is victim else s for s in schedulers]
        eventually(lambda: len(fired(db_conn)) >= minutes.ahead, timeout=20)
    times = assert_one_job_a_minute(db_conn)
    # A minute or two have passed by themselves meanwhile.
    assert 60 <= len(times) <= 63


def test_a_leader_stopped_between_reading_and_inserting_makes_no_second_job(
    processes: Processes, minutes: Minutes, db_conn: Connection, engine: Engine, entry_id: int
) -> None:
    first = processes.scheduler()
    stopped_pid = wait_for_leader(db_conn)
    processes.scheduler()
    wait_for_schedulers(db_conn, 2)
    with engine.begin() as blocking:
        blocking.execute(text("LOCK TABLE cron_occurrences IN SHARE MODE"))
        minutes.pass_by()
        waiting = "pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%INSERT INTO cron_occurrences%'"
        eventually(lambda: count(db_conn, waiting) == 1)
        os.kill(stopped_pid, signal.SIGSTOP)
    try:
        wait_for_leader(db_conn, stopped_pid)
        # PostgreSQL ends the stopped one's transaction (C8); what it had locked is fired by the other.
        eventually(lambda: len(fired(db_conn)) >= 1, timeout=20)
    finally:
        os.kill(stopped_pid, signal.SIGCONT)
    beat = text("SELECT beat_at FROM processes WHERE pid = :pid ORDER BY started_at DESC LIMIT 1")
    before = db_conn.execute(beat, {"pid": stopped_pid}).scalar_one()
    eventually(lambda: db_conn.execute(beat, {"pid": stopped_pid}).scalar_one() != before, timeout=20)
    for _ in range(3):
        done = len(fired(db_conn))
        minutes.pass_by()
        eventually(lambda done=done: len(fired(db_conn)) > done, timeout=20)
    assert first.is_running
    assert_one_job_a_minute(db_conn)


def test_what_no_scheduler_was_there_for_is_caught_up_by_policy(
    processes: Processes, minutes: Minutes, db_conn: Connection
) -> None:
    client_id = make_client(db_conn)
    entries = {policy: make_entry(db_conn, client_id, catch_up=policy) for policy in ("one", "all", "none")}
    scheduler = processes.scheduler()
    eventually(lambda: count(db_conn, "jobs") == 3, timeout=20)
    scheduler.stop()
    minutes.pass_by(4)
    processes.scheduler()
    settled = "cron_entries WHERE next_run_at > punctual_now()"
    eventually(lambda: count(db_conn, settled) == 3, timeout=20)
    made = {policy: count(db_conn, f"jobs WHERE cron_entry_id = {entry_id}") for policy, entry_id in entries.items()}
    on_record = {
        policy: count(db_conn, f"cron_occurrences WHERE cron_entry_id = {entry_id}")
        for policy, entry_id in entries.items()
    }
    # Three were missed beside the one that is on time; a minute may have passed by itself.
    late = on_record["all"] - 5
    assert late in (0, 1) and set(on_record.values()) == {on_record["all"]}
    assert made == {"one": 1 + 1 + 1 + late, "all": 1 + 4 + late, "none": 1 + 1 + late}
    assert count(db_conn, "cron_occurrences WHERE status = 'skipped' AND reason = 'missed'") == 2 + 3


def test_a_host_whose_clock_is_set_to_and_fro_changes_nothing(
    processes: Processes, minutes: Minutes, db_conn: Connection, entry_id: int
) -> None:
    processes.start("scheduler", "-m", "tests.wrong_clock")
    wait_for_leader(db_conn)
    until = time.monotonic() + 4
    while time.monotonic() < until or minutes.ahead < 5:
        minutes.pass_by()
        eventually(lambda: len(fired(db_conn)) >= minutes.ahead, timeout=20)
    assert len(assert_one_job_a_minute(db_conn)) - minutes.ahead in (0, 1)
    assert (
        count(db_conn, "cron_entries WHERE next_run_at BETWEEN punctual_now() AND punctual_now() + interval '1 minute'")
        == 1
    )


def test_postgresqls_clock_set_forward_two_hours_and_back_fires_no_minute_twice(
    processes: Processes, minutes: Minutes, db_conn: Connection, entry_id: int
) -> None:
    processes.scheduler()
    wait_for_leader(db_conn)
    minutes.pass_by(120)
    ahead = "cron_entries WHERE next_run_at > punctual_now()"
    eventually(lambda: fired(db_conn) and count(db_conn, ahead) == 1, timeout=20)
    before = fired(db_conn)
    minutes.pass_by(-120)
    # Whoever leads by a lease of the time to come leads on; the minutes it has fired come again, and nothing more is made.
    for _ in range(3):
        minutes.pass_by()
        wait_for_leader(db_conn)
    assert fired(db_conn) == before
    minutes.pass_by(118)
    eventually(lambda: len(fired(db_conn)) > len(before), timeout=20)
    assert count(db_conn, "jobs") == len(fired(db_conn)) == len(set(fired(db_conn)))


def test_entries_broken_by_sql_are_disabled_in_words_while_ten_fire(processes: Processes, db_conn: Connection) -> None:
    client_id = make_client(db_conn)
    good = [make_entry(db_conn, client_id) for _ in range(10)]
    bad = [make_entry(db_conn, client_id, "0 0 31 2 *"), make_entry(db_conn, client_id, timezone="Mars/Phobos")]
    processes.scheduler()
    eventually(lambda: count(db_conn, "jobs") == 10, timeout=20)
    rows: Any = db_conn.execute(text("SELECT id, enabled, disabled_reason FROM cron_entries ORDER BY id")).all()
    assert [row.id for row in rows if row.enabled] == good
    assert {row.id: bool(row.disabled_reason) for row in rows if not row.enabled} == dict.fromkeys(bad, True)


def test_when_the_leader_goes_the_next_occurrence_is_hardly_late(
    processes: Processes, db_conn: Connection, entry_id: int
) -> None:
    schedulers = {s.pid: s for s in (processes.scheduler() for _ in range(3))}
    told = wait_for_leader(db_conn)
    wait_for_schedulers(db_conn, 3)
    schedulers[told].ask_to_stop()
    assert seconds_late(db_conn) <= 1
    killed = wait_for_leader(db_conn, told)
    os.kill(killed, signal.SIGKILL)
    assert seconds_late(db_conn) <= 6
    assert wait_for_leader(db_conn, told, killed) in schedulers
    assert not schedulers[told].is_running and schedulers[told].exit_code == 0


def seconds_late(conn: Connection) -> float:
    """By how much the one entry is late that becomes due in a moment."""
    due = text("UPDATE cron_entries SET next_run_at = punctual_now() + interval '0.3 seconds' RETURNING next_run_at")
    due_at: datetime = conn.execute(due).scalar_one()
    made = text("SELECT created_at FROM jobs WHERE scheduled_for = :due_at")
    created_at = eventually(lambda: conn.execute(made, {"due_at": due_at}).scalar_one_or_none(), timeout=20)
    assert isinstance(created_at, datetime) and created_at >= due_at
    return (created_at - due_at).total_seconds()
