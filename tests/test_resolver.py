"""The resolver: one lookup a name at a time, answers kept, and no name that waits for another."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from app.callbacks.addresses import Resolution
from tests.eventually import eventually
from worker.resolver import IDLE_SECONDS, KEEP_FAILURE_SECONDS, KEEP_SECONDS, MAX_NAMES, Resolver


class Names:
    """A lookup that answers at once, except for names that begin with `hangs`, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.go_on = threading.Event()

    def __call__(self, host: str, _port: None, *, type: socket.SocketKind) -> list[Any]:
        self.asked.append(host)
        assert type is socket.SOCK_STREAM
        if host.startswith("hangs"):
            self.go_on.wait(30)
        if host.startswith("missing"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, type, 6, "", ("192.0.2.1", 0)), (socket.AF_INET, type, 17, "", ("192.0.2.1", 0))]


class Time:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


FOUND = Resolution(("192.0.2.1",))


@contextmanager
def resolving(lookup: Callable[..., list[Any]], **options: Any) -> Iterator[Resolver]:
    resolver = Resolver(lookup=lookup, **options)
    try:
        yield resolver
    finally:
        if isinstance(lookup, Names):
            lookup.go_on.set()
        resolver.close()


def resolve(resolver: Resolver, host: str) -> Resolution:
    answers: list[Resolution] = []
    resolver.resolve(host, lambda _host, resolution: answers.append(resolution))
    return eventually(lambda: answers, every=0.001)[0]


def test_an_answer_holds_each_address_once() -> None:
    with resolving(Names()) as resolver:
        assert resolve(resolver, "a.example") == FOUND


def test_the_systems_own_lookup_is_the_default() -> None:
    resolver = Resolver()
    assert "127.0.0.1" in resolve(resolver, "localhost").addresses
    resolver.close()


def test_answers_are_kept_for_30_seconds_and_failures_for_one() -> None:
    names, time = Names(), Time()
    with resolving(names, monotonic=time) as resolver:
        for host, kept_for in (("a.example", KEEP_SECONDS), ("missing.example", KEEP_FAILURE_SECONDS)):
            first = resolve(resolver, host)
            time.seconds += kept_for - 0.001
            assert resolver.cached(host) == first
            assert resolve(resolver, host) == first
            assert names.asked.count(host) == 1
            time.seconds += 0.002
            assert resolver.cached(host) is None
            assert resolve(resolver, host) == first
            assert names.asked.count(host) == 2
    assert KEEP_SECONDS == 30


def test_a_known_answer_is_given_at_once() -> None:
    with resolving(Names()) as resolver:
        resolve(resolver, "a.example")
        answers: list[Resolution] = []
        resolver.resolve("a.example", lambda _host, resolution: answers.append(resolution))
        assert answers == [FOUND]


def test_a_name_is_looked_up_once_for_all_who_wait_for_it() -> None:
    names = Names()
    with resolving(names) as resolver:
        answers: list[Resolution] = []
        for _ in range(50):
            resolver.resolve("hangs.example", lambda _host, resolution: answers.append(resolution))
        eventually(lambda: names.asked)
        names.go_on.set()
        eventually(lambda: len(answers) == 50)
        assert names.asked == ["hangs.example"]


def test_500_names_that_hang_hold_up_no_other() -> None:
    names = Names()
    answers: list[str] = []
    with resolving(names) as resolver:
        for number in range(500):
            resolver.resolve(f"hangs{number}.example", lambda host, _resolution: answers.append(host))
        for number in range(20):
            assert resolve(resolver, f"quick{number}.example") == FOUND
        assert answers == []
        names.go_on.set()
        eventually(lambda: len(answers) == 500)


def test_names_that_were_slow_cannot_take_every_thread_again() -> None:
    names, time = Names(), Time()
    with resolving(names, max_threads=4, max_suspects=2, monotonic=time) as resolver:
        slow = [f"hangs{number}.example" for number in range(4)]
        answers: list[str] = []
        for host in slow:
            resolver.resolve(host, lambda host, _resolution: answers.append(host))
        eventually(lambda: len(names.asked) == 4)
        time.seconds += 5
        names.go_on.set()
        eventually(lambda: len(answers) == 4)
        names.go_on.clear()
        time.seconds += KEEP_SECONDS + 1
        for host in slow:
            resolver.resolve(host, lambda host, _resolution: answers.append(host))
        eventually(lambda: len(names.asked) == 6)
        assert resolve(resolver, "quick.example") == FOUND
        assert len(names.asked) == 7
        names.go_on.set()
        eventually(lambda: len(answers) == 8)


def test_the_number_of_threads_is_bounded_and_waiting_names_get_their_turn() -> None:
    names = Names()
    answers: list[str] = []
    with resolving(names, max_threads=3) as resolver:
        for number in range(10):
            resolver.resolve(f"hangs{number}.example", lambda host, _resolution: answers.append(host))
        eventually(lambda: len(names.asked) == 3)
        names.go_on.set()
        eventually(lambda: len(answers) == 10)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (
            socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"),
            "Temporary failure in name resolution",
        ),
        (UnicodeError("label empty or too long"), "could not be looked up."),
        (KeyError("a bug"), "could not be looked up."),
        (None, "has no address."),
    ],
)
def test_a_lookup_that_fails_is_an_answer(fault: Exception | None, error: str) -> None:
    def lookup(*_arguments: object, **_options: object) -> list[Any]:
        if fault is not None:
            raise fault
        return []

    with resolving(lookup) as resolver:
        resolution = resolve(resolver, "a.example")
        assert resolution.addresses == ()
        assert error in (resolution.error or "")


def test_a_lookup_that_answers_nonsense_does_not_stick() -> None:
    answers = iter([None, [(socket.AF_INET, 1, 6, "", ("192.0.2.1", 0))]])
    time = Time()
    with resolving(lambda *_arguments, **_options: next(answers), monotonic=time) as resolver:  # type: ignore[arg-type]
        assert resolve(resolver, "a.example").error == "The host name could not be looked up."
        time.seconds += 2
        assert resolve(resolver, "a.example") == FOUND


def test_a_fault_of_who_asked_leaves_the_others_their_answer() -> None:
    names = Names()
    with resolving(names) as resolver:
        answers: list[Resolution] = []

        def faulty(_host: str, _resolution: Resolution) -> None:
            raise ValueError("a bug")

        resolver.resolve("hangs.example", faulty)
        resolver.resolve("hangs.example", lambda _host, resolution: answers.append(resolution))
        names.go_on.set()
        eventually(lambda: answers == [FOUND])


def test_the_kept_answers_are_bounded() -> None:
    with resolving(Names(), max_threads=1) as resolver:
        count = MAX_NAMES + 5
        answers: list[str] = []
        for number in range(count):
            resolver.resolve(f"{number}.example", lambda host, _resolution: answers.append(host))
        eventually(lambda: len(answers) == count)
        assert resolver.cached("0.example") is None
        assert resolver.cached(f"{count - 1}.example") == FOUND


def test_closing_lets_idle_threads_end() -> None:
    before = set(threading.enumerate())
    resolver = Resolver(lookup=Names())
    resolve(resolver, "a.example")
    made = [thread for thread in threading.enumerate() if thread not in before]
    assert made
    resolver.close()
    eventually(lambda: not any(thread.is_alive() for thread in made), timeout=IDLE_SECONDS / 2)
