"""The ready stream and the scheduled set (C2, C12, C14, C15): what moves, what stays, and what is cleared away."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine

from app.rate_limit import hit
from app.redis_keys import GROUP
from app.stream import HORIZON, PIPELINE_LENGTH, Due, Read, Stream, Ticket, parse_id, to_score
from tests.factories import Scene

NOW = datetime(2026, 12, 1, 10, tzinfo=UTC)
# What may live for ever: all else needs a lifetime.
PERMANENT = {b"{punctual}:ready", b"{punctual}:scheduled", b"{punctual}:epoch"}


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


@pytest.fixture
def stream(scene: Scene) -> Stream:
    return scene.stream


def due(seconds: float = 0, attempts: int = 0) -> Due:
    return Due(Ticket(str(uuid4()), 0, attempts), NOW + timedelta(seconds=seconds))


def pending(stream: Stream) -> int:
    answer: Any = stream.client.xpending(stream.keys.ready, GROUP)
    return int(answer["pending"])


# Scores


@given(st.datetimes(datetime(2000, 1, 1), datetime(9999, 12, 30), timezones=st.just(UTC)))
def test_a_score_is_never_before_its_time_and_less_than_a_millisecond_after(instant: datetime) -> None:
    since_1970 = (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert since_1970 <= to_score(instant) * 1000 < since_1970 + 1000


@pytest.mark.parametrize(("microseconds", "score"), [(0, 0), (1, 1), (999, 1), (1000, 1), (1001, 2)])
def test_a_score_is_rounded_up(microseconds: int, score: int) -> None:
    assert to_score(NOW + timedelta(microseconds=microseconds)) == to_score(NOW) + score


@given(st.integers(0, 10_000))
def test_nothing_is_promoted_before_its_time(microseconds: int) -> None:
    """What the promoter passes as now is rounded down."""
    run_at = NOW + timedelta(microseconds=microseconds)
    for early in range(1, 1500, 100):
        assert int((run_at - timedelta(microseconds=early)).timestamp() * 1000) < to_score(run_at)


# Adding


def test_each_job_goes_where_it_belongs(scene: Scene, stream: Stream) -> None:
    past, now, soon, at_horizon, later = (due(s) for s in (-60, 0, 0.001, HORIZON.total_seconds(), 30.001))
    assert stream.add([past, now, soon, at_horizon, later], NOW) == 4
    assert scene.ready() == [past.ticket.member, now.ticket.member]
    assert scene.scheduled() == {job.ticket.member: to_score(job.run_at) for job in (soon, at_horizon)}


def test_adding_a_member_again_changes_nothing(scene: Scene, stream: Stream) -> None:
    job = due(5)
    stream.add([job, job], NOW)
    stream.add([job], NOW)
    assert scene.scheduled() == {job.ticket.member: to_score(job.run_at)}


@pytest.mark.parametrize("count", [PIPELINE_LENGTH, PIPELINE_LENGTH + 1])
def test_a_long_list_is_added_to_its_end(stream: Stream, count: int) -> None:
    assert stream.add((due(1) for _ in range(count)), NOW) == count
    assert stream.depth() == (0, count)


# Promoting


def test_what_is_due_moves_in_order_of_time(scene: Scene, stream: Stream) -> None:
    first, second, third, later = due(1), due(2), due(3, attempts=4), due(3.001)
    stream.add([third, later, first, second], NOW)
    promoted = stream.promote(NOW + timedelta(seconds=3))
    assert (promoted.moved, promoted.bad, promoted.epoch) == (3, 0, "")
    assert promoted.next_at_ms == to_score(later.run_at)
    assert scene.ready() == [first.ticket.member, second.ticket.member, third.ticket.member]
    assert list(scene.scheduled()) == [later.ticket.member]


def test_a_pass_moves_at_most_so_many(stream: Stream) -> None:
    stream.add([due(1) for _ in range(5)], NOW)
    assert stream.promote(NOW + timedelta(seconds=1), most=3).moved == 3
    assert stream.depth() == (3, 2)
    assert stream.promote(NOW + timedelta(seconds=1), most=3).moved == 2


def test_a_promoted_entry_reads_as_the_ticket_it_was(stream: Stream) -> None:
    job = Due(Ticket(str(uuid4()), 3, 2), NOW + timedelta(seconds=1))
    stream.add([job], NOW)
    stream.promote(NOW + timedelta(seconds=1))
    stream.create_group()
    assert [entry.ticket for entry in stream.read("w", 10, 10)] == [job.ticket]


BAD = ["", "x", f"{uuid4()}", f"{uuid4()}:1", f"{uuid4()}:x:1", f"{uuid4()}:-1:0", f"{uuid4()}:1:1:1", "%s" * 9]


def test_bad_members_are_kept_aside_and_stop_no_other(scene: Scene, stream: Stream) -> None:
    members: list[Any] = [*BAD, b"\x00\xff\xfe:1:1", "y" * 5000]
    stream.client.zadd(scene.keys.scheduled, {member: 1 for member in members})
    good = due(1)
    stream.add([good], NOW)
    promoted = stream.promote(NOW + timedelta(seconds=1))
    assert (promoted.moved, promoted.bad) == (1, len(members))
    assert scene.ready() == [good.ticket.member]
    assert scene.scheduled() == {}
    kept: Any = stream.client.lrange(scene.keys.bad, 0, -1)
    assert len(kept) == len(members) and max(map(len, kept)) == 1024
    assert 0 < stream.client.ttl(scene.keys.bad) <= 7 * 24 * 3600


def test_out_of_memory_leaves_each_member_where_it_is(scene: Scene, stream: Stream) -> None:
    """C12: the other way round the set would be emptied into nowhere."""
    jobs = [due(1) for _ in range(20)]
    stream.add(jobs, NOW)
    stream.client.config_set("maxmemory", "1")
    try:
        with pytest.raises(redis.RedisError):
            stream.promote(NOW + timedelta(seconds=1))
    finally:
        stream.client.config_set("maxmemory", "0")
    assert scene.ready() == []
    assert sorted(scene.scheduled()) == sorted(job.ticket.member for job in jobs)
    assert stream.promote(NOW + timedelta(seconds=1)).moved == 20


# The epoch (C14)


def test_a_rebuild_ends_ready_only_from_its_own_beginning(stream: Stream) -> None:
    assert stream.epoch() == ""
    assert not stream.finish_rebuild("a")
    stream.begin_rebuild("a")
    assert stream.epoch() == "rebuilding:a"
    assert not stream.finish_rebuild("b")
    assert stream.finish_rebuild("a")
    assert stream.epoch() == "ready:a"
    assert not stream.finish_rebuild("a")
    assert stream.promote(NOW).epoch == "ready:a"
    stream.client.flushdb()
    assert stream.promote(NOW).epoch == ""


def test_a_flush_in_mid_rebuild_is_noticed(stream: Stream) -> None:
    stream.begin_rebuild("a")
    stream.client.flushdb()
    assert not stream.finish_rebuild("a")
    assert stream.epoch() == ""


# Reading, and clearing what was left behind (C15)


def test_a_group_reads_what_was_added_before_it(stream: Stream) -> None:
    jobs = [due(), due()]
    stream.add(jobs, NOW)
    stream.create_group()
    stream.create_group()
    assert [entry.ticket for entry in stream.read("w", 10, 10)] == [job.ticket for job in jobs]
    assert stream.read("w", 10, 1) == []


def test_without_a_group_reading_says_so(stream: Stream) -> None:
    with pytest.raises(redis.ResponseError, match="NOGROUP"):
        stream.read("w", 10, 1)


def test_an_entry_is_acknowledged_and_deleted_in_one_go(scene: Scene, stream: Stream) -> None:
    stream.create_group()
    stream.add([due(), due()], NOW)
    read = stream.read("w", 1, 10)
    stream.finish(read, [], NOW)
    assert (len(scene.ready()), pending(stream)) == (1, 0)


def test_what_was_delivered_and_not_seen_is_read_again(stream: Stream) -> None:
    stream.create_group()
    stream.add([due(), due()], NOW)
    read = stream.read("w", 10, 10)
    assert stream.read_pending("w", 10) == read
    assert stream.read_pending("another", 10) == []
    stream.finish(read[:1], [], NOW)
    assert stream.read_pending("w", 10) == read[1:]


def test_trimming_removes_only_what_is_done_with(scene: Scene, stream: Stream) -> None:
    stream.create_group()
    jobs = [due() for _ in range(5)]
    stream.add(jobs, NOW)
    read = stream.read("w", 4, 10)
    # Acknowledged and, by a crash, not deleted.
    for entry in (read[0], read[1], read[3]):
        stream.client.xack(scene.keys.ready, GROUP, entry.entry_id)
    assert stream.trim() == 2
    assert scene.ready() == [job.ticket.member for job in jobs[2:]]
    stream.client.xack(scene.keys.ready, GROUP, read[2].entry_id)
    assert stream.trim() == 2
    assert scene.ready() == [jobs[4].ticket.member]
    assert [entry.ticket for entry in stream.read("w", 9, 10)] == [jobs[4].ticket]


def test_trimming_takes_nothing_that_was_not_delivered(scene: Scene, stream: Stream) -> None:
    stream.add([due() for _ in range(3)], NOW)
    assert stream.trim() == 0
    stream.create_group()
    assert stream.trim() == 0
    assert len(scene.ready()) == 3


def test_what_is_pending_too_long_is_dropped_over_the_whole_cursor(scene: Scene, stream: Stream) -> None:
    stream.create_group()
    stream.add([due() for _ in range(1100)], NOW)
    stream.read("gone", 1100, 10)
    assert stream.drop_stale_pending("rescuer", 60_000) == 0
    assert pending(stream) == 1100
    assert stream.drop_stale_pending("rescuer", 0) == 1100
    assert (pending(stream), scene.ready()) == (0, [])


def test_a_pending_entry_that_was_deleted_stops_nothing(scene: Scene, stream: Stream) -> None:
    """Redis 6.2 names such an entry with a nil, 7.0 in a list of its own."""
    stream.create_group()
    stream.add([due(), due()], NOW)
    first, _ = stream.read("gone", 2, 10)
    stream.client.xdel(scene.keys.ready, first.entry_id)
    assert stream.drop_stale_pending("rescuer", 0) == 2
    assert (pending(stream), scene.ready()) == (0, [])


def test_consumers_go_only_when_their_process_is_gone_and_nothing_is_pending(stream: Stream) -> None:
    stream.create_group()
    stream.add([due()], NOW)
    assert len(stream.read("holding", 1, 10)) == 1
    for name in ("living", "gone"):
        stream.client.xgroup_createconsumer(stream.keys.ready, GROUP, name)
    assert stream.remove_consumers({"living"}) == ["gone"]
    consumers: Any = stream.client.xinfo_consumers(stream.keys.ready, GROUP)
    names = {consumer["name"] for consumer in consumers}
    assert names == {b"holding", b"living"}


@pytest.mark.parametrize("gone", ["stream", "group"])
def test_clearing_makes_a_missing_stream_or_group_anew(scene: Scene, stream: Stream, gone: str) -> None:
    if gone == "group":
        stream.add([due()], NOW)
    assert stream.drop_stale_pending("rescuer", 0) == 0
    assert stream.trim() == 0
    assert stream.remove_consumers(set()) == []
    assert stream.last_delivered_id() == (0, 0)
    assert len(stream.read("w", 10, 1)) == (1 if gone == "group" else 0)


# What the marks ask (C16)


def test_missing_structures_read_as_before_all(stream: Stream) -> None:
    assert stream.last_generated_id() == (0, 0)
    assert stream.last_delivered_id() is None
    assert not stream.holds_scheduled_before(NOW)


def test_ids_compare_as_numbers(stream: Stream) -> None:
    assert parse_id(b"10-2") == (10, 2) > parse_id("9-11")
    assert parse_id("7") == (7, 0)


def test_a_member_of_the_same_millisecond_is_before_it(stream: Stream) -> None:
    """Both are rounded up to one score: the earlier one must not be overlooked."""
    t0 = NOW + timedelta(microseconds=900)
    stream.add([Due(Ticket(str(uuid4()), 0, 0), NOW + timedelta(microseconds=100))], NOW)
    assert stream.holds_scheduled_before(t0)
    assert not stream.holds_scheduled_before(NOW - timedelta(milliseconds=1))


def test_all_is_handed_out_when_nothing_up_to_a_mark_is_undelivered(stream: Stream) -> None:
    stream.create_group()
    stream.add([due(), due()], NOW)
    mark = stream.last_generated_id()
    assert not stream.has_handed_out(mark)
    read: list[Read] = stream.read("w", 1, 10)
    assert not stream.has_handed_out(mark)
    read += stream.read("w", 1, 10)
    assert stream.has_handed_out(mark)
    stream.finish(read, [], NOW)
    # A group made anew begins at 0, and there is nothing left for it to reach the mark by.
    stream.client.xgroup_destroy(stream.keys.ready, GROUP)
    assert not stream.has_handed_out(mark)
    stream.create_group()
    assert stream.has_handed_out(mark)
    stream.client.delete(stream.keys.ready)
    stream.create_group()
    assert stream.has_handed_out(mark)


def test_every_key_has_a_lifetime_or_is_on_the_permanent_list(scene: Scene, stream: Stream) -> None:
    keys = scene.keys
    stream.create_group()
    stream.add([due(), due(1), due(2)], NOW)
    stream.begin_rebuild("a")
    stream.client.zadd(keys.scheduled, {"bad": 1})
    stream.promote(NOW + timedelta(seconds=1))
    stream.note_bad(stream.read("w", 10, 10)[:1])
    for key in (keys.rate(1), keys.refusals("203.0.113.1"), keys.sign_in("ada", "203.0.113.1")):
        assert hit(scene.stores, key, 10) is not None
    names: Any = stream.client.keys("*")
    assert len(names) == 7
    lifetimes = {name: stream.client.ttl(name) for name in names}
    assert {name for name, seconds in lifetimes.items() if seconds == -1} == PERMANENT
    assert all(name.startswith(b"{punctual") for name in names)
    assert math.isclose(max(lifetimes.values()), 7 * 24 * 3600, abs_tol=5)
