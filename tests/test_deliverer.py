"""The deliverer's flow: who may send and when, one send an attempt, places at a host, and winding down."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import pytest

from app.attempts import Answer, Claim
from app.callbacks.request import fill
from tests.delivery import NOW, OK, Receiver, hanging, keeping_alive, make_claim, receiver, running_deliverer
from tests.eventually import eventually
from worker.deliverer import Deliverer


def closing_after(answered: int) -> Callable[[socket.socket, Receiver], None]:
    """Answers so many requests on a connection, reads one more and closes without an answer."""

    def speak(connection: socket.socket, made: Receiver) -> None:
        for _ in range(answered):
            if made.read_request(connection) is None:
                return
            connection.sendall(OK)
        made.read_request(connection)

    return speak


def test_connections_are_used_again() -> None:
    with receiver(keeping_alive) as made, running_deliverer() as delivery:
        for _ in range(5):
            assert delivery.call(made.url).error_class is None
    assert (len(made.requests), made.accepted) == (5, 1)


def test_an_attempt_is_sent_once_though_the_reused_connection_dies() -> None:
    """C18: libcurl would repeat a request by itself on a fresh connection."""
    with receiver(closing_after(3)) as made, running_deliverer() as delivery:
        answers = [delivery.call(made.url) for _ in range(12)]
    assert [answer.error_class for answer in answers] == [None, None, None, "protocol"] * 3
    assert {answer.error for answer in answers} == {None, "The connection closed before an answer."}
    assert len(made.requests) == 12


def test_no_attempt_arrives_twice_at_a_receiver_that_closes_as_it_likes() -> None:
    with receiver(closing_after(2)) as made, running_deliverer() as delivery:
        claims = [make_claim(made.url) for _ in range(300)]
        delivery.deliverer.submit(claims)
        answers = delivery.wait(300)
    arrived = Counter(
        line for request in made.requests for line in request.split(b"\r\n") if line.startswith(b"X-Job-ID")
    )
    assert max(arrived.values()) == 1
    assert sum(answer.error_class is None for _, answer in answers) <= len(arrived) <= 300
    assert {answer.error_class for _, answer in answers} == {None, "protocol"}


def test_nothing_is_sent_while_the_worker_may_not() -> None:
    may_send = threading.Event()
    asked = threading.Event()

    def ask() -> bool:
        asked.set()
        return may_send.is_set()

    with receiver(keeping_alive) as made, running_deliverer(may_send=ask) as delivery:
        delivery.deliverer.submit([make_claim(made.url, timeout_seconds=0.1) for _ in range(3)])
        assert asked.wait(5)
        begun = delivery.deliverer.turned_over_at
        # Longer than the deadline: it has not begun.
        eventually(lambda: delivery.deliverer.turned_over_at > begun + 0.2)
        assert (made.accepted, delivery.answers, delivery.deliverer.in_flight) == (0, [], 3)
        may_send.set()
        assert {answer.error_class for _, answer in delivery.wait(3)} == {None}
    assert len(made.requests) == 3


def test_a_worker_that_goes_quiet_between_connect_and_send_sends_nothing() -> None:
    """C17 asks before each send, and a connection can take longer than a beat stays good."""
    asked = 0

    def ask() -> bool:
        nonlocal asked
        asked += 1
        return asked != 2  # yes before it connects, no before it sends, and yes again

    with receiver(keeping_alive) as made, running_deliverer(may_send=ask) as delivery:
        assert delivery.call(made.url).error_class is None
    assert (len(made.requests), made.accepted) == (1, 2)


def test_places_at_a_host_are_limited_and_what_waits_too_long_a_queue_is_handed_back() -> None:
    open_now = peak = 0
    counting = threading.Lock()
    go_on = threading.Event()

    def counted(connection: socket.socket, made: Receiver) -> None:
        nonlocal open_now, peak
        while made.read_request(connection) is not None:
            with counting:
                open_now += 1
                peak = max(peak, open_now)
            go_on.wait(10)
            with counting:
                open_now -= 1
            connection.sendall(OK)

    with receiver(counted) as slow, receiver(keeping_alive) as quick, running_deliverer(per_host=3) as delivery:
        delivery.deliverer.submit([make_claim(slow.url) for _ in range(20)])
        eventually(lambda: len(delivery.unsent) == 5)
        eventually(lambda: open_now == 3)
        # Others do not wait behind it.
        assert delivery.call(quick.url).error_class is None
        assert delivery.deliverer.in_flight == 15
        go_on.set()
        delivery.wait(16)
        eventually(lambda: delivery.deliverer.in_flight == 0)
    assert peak == 3
    assert len(slow.requests) == 15


def test_waiting_for_a_place_does_not_count_against_the_deadline() -> None:
    def slow(connection: socket.socket, made: Receiver) -> None:
        while made.read_request(connection) is not None:
            made.is_closed.wait(0.15)
            connection.sendall(OK)

    with receiver(slow) as made, running_deliverer(per_host=1) as delivery:
        delivery.deliverer.submit([make_claim(made.url, timeout_seconds=0.4) for _ in range(4)])
        answers = delivery.wait(4)
    assert [answer.error_class for _, answer in answers] == [None] * 4
    assert all(answer.timings["total"] < 400 for _, answer in answers)


def test_slow_receivers_do_not_hold_up_quick_ones() -> None:
    with receiver(hanging) as slow, receiver(keeping_alive) as quick, running_deliverer() as delivery:
        delivery.deliverer.submit([make_claim(slow.url, timeout_seconds=30.0) for _ in range(200)])
        eventually(lambda: len(slow.requests) == 64)
        delivery.deliverer.submit([make_claim(quick.url) for _ in range(200)])
        answers = delivery.wait(200)
        assert {answer.error_class for _, answer in answers} == {None}
        assert len(slow.requests) == 64


def test_winding_down_tells_the_unsent_from_the_unanswered() -> None:
    """C19: what was never sent is handed back, what was sent and not answered is lost."""

    def never(*_arguments: object, **_options: object) -> list[object]:
        hang.wait(20)
        return []

    hang = threading.Event()
    with receiver(hanging) as made, running_deliverer(per_host=2, lookup=never) as delivery:
        sent = [make_claim(made.url, timeout_seconds=30.0) for _ in range(2)]
        waiting = [make_claim(made.url) for _ in range(3)]
        looking_up = [make_claim("http://hangs.example/")]
        delivery.deliverer.submit([*sent, *waiting, *looking_up])
        eventually(lambda: len(made.requests) == 2)
        assert delivery.deliverer.in_flight == 6
        assert {claim.fence for claim in delivery.deliverer.take_unsent()} == {c.fence for c in waiting + looking_up}
        lost = delivery.deliverer.abandon()
        assert {claim.fence for claim, _ in lost} == {claim.fence for claim in sent}
        assert {(answer.error_class, answer.execution_status) for _, answer in lost} == {("lost", "lost")}
        assert delivery.deliverer.in_flight == 0
        # The slots are free again.
        with receiver(keeping_alive) as other:
            assert delivery.call(other.url).error_class is None
        assert len(delivery.answers) == 1
        hang.set()


def test_what_is_still_connecting_is_unsent() -> None:
    full = socket.socket()
    full.bind(("127.0.0.1", 0))
    full.listen(0)
    fillers = []
    try:
        # A full queue of a listener that accepts nothing: further connections wait.
        for _ in range(2):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
            fillers.append(filler)
        with running_deliverer() as delivery:
            claim = make_claim(f"http://127.0.0.1:{full.getsockname()[1]}/", timeout_seconds=30.0)
            delivery.deliverer.submit([claim])
            begun = delivery.deliverer.turned_over_at
            eventually(lambda: delivery.deliverer.turned_over_at > begun)
            assert delivery.deliverer.take_unsent() == [claim]
            assert delivery.deliverer.abandon() == []
    finally:
        for opened in (full, *fillers):
            opened.close()


def test_a_fault_of_who_takes_the_answers_loses_none() -> None:
    with receiver(keeping_alive) as made, running_deliverer() as delivery:
        taken: list[tuple[Claim, Answer]] = []
        faults = iter([ValueError("a bug"), None])

        def take(answers: list[tuple[Claim, Answer]]) -> None:
            if (fault := next(faults, None)) is not None:
                raise fault
            taken.extend(answers)

        delivery.deliverer._on_answers = take
        delivery.deliverer.submit([make_claim(made.url)])
        eventually(lambda: len(taken) == 1)
        eventually(lambda: delivery.deliverer.in_flight == 0)
    assert len(made.requests) == 1


def test_a_bug_in_one_delivery_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def buggy(curl: object, claim: Claim, *rest: object) -> None:
        if claim.type == "bad":
            raise KeyError("a bug")
        fill(curl, claim, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr("app.callbacks.call.fill", buggy)
    with receiver(keeping_alive) as made, running_deliverer() as delivery:
        delivery.deliverer.submit([make_claim(made.url, type=kind) for kind in ("good", "bad", "good")])
        outcomes = {(claim.type, answer.error_class) for claim, answer in delivery.wait(3)}
    assert outcomes == {("good", None), ("bad", "protocol")}


def test_a_stopped_deliverer_ends_at_once() -> None:
    with receiver(hanging) as made, running_deliverer() as delivery:
        delivery.deliverer.submit([make_claim(made.url, timeout_seconds=30.0)])
        eventually(lambda: made.requests)
        begun = time.monotonic()
        delivery.deliverer.stop()
        assert not delivery.deliverer.is_alive()
        assert time.monotonic() - begun < 3
        assert isinstance(delivery.deliverer, Deliverer)


def test_a_rated_claim_that_had_to_wait_is_handed_back() -> None:
    """Its start was counted at its claim, and the receiver would see it in another span."""
    with receiver(keeping_alive) as quick, running_deliverer() as delivery:
        long_ago = NOW - timedelta(days=1)
        late = [make_claim(quick.url, claimed_at=long_ago, is_rated=is_rated) for is_rated in (True, False)]
        delivery.deliverer.submit(late)
        delivery.wait(1)
        eventually(lambda: [claim for claim, _ in delivery.unsent] == late[:1])
        assert [claim for claim, _ in delivery.answers] == late[1:]
