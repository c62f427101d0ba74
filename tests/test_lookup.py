"""Names looked up at submit: bounded in time and number, one look-up a name at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.api import lookup
from app.api.lookup import Lookups


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Holds look-ups until it is set; at the end nothing waits any more."""
    gate = threading.Event()
    yield gate
    gate.set()


def test_a_name_is_looked_up_once_for_all_who_ask(gate: threading.Event) -> None:
    asked = []

    def resolve(host: str) -> tuple[str, ...]:
        asked.append(host)
        gate.wait()
        return ("93.184.216.34",)

    lookups = Lookups(resolve)
    with ThreadPoolExecutor(5) as pool:
        answers = [pool.submit(lookups.addresses, "example.com", 5) for _ in range(5)]
        gate.set()

    assert {answer.result() for answer in answers} == {("93.184.216.34",)}
    assert lookups.addresses("example.com") == ("93.184.216.34",)
    assert asked == ["example.com"]


def test_a_name_that_hangs_holds_its_caller_a_moment_and_others_not_at_all(gate: threading.Event) -> None:
    def resolve(host: str) -> tuple[str, ...]:
        if host.startswith("slow"):
            gate.wait()
        return ("93.184.216.34",)

    lookups = Lookups(resolve)
    started = time.monotonic()
    assert lookups.addresses("slow.example.com", 0.05) == ()
    assert lookups.addresses("quick.example.com", 5) == ("93.184.216.34",)
    assert time.monotonic() - started < 4


def test_when_very_many_hang_the_next_is_not_even_asked(gate: threading.Event) -> None:
    asked = []

    def resolve(host: str) -> tuple[str, ...]:
        asked.append(host)
        gate.wait()
        return ("93.184.216.34",)

    lookups = Lookups(resolve)
    for number in range(lookup.MOST_WAITING):
        lookups.addresses(f"slow{number}.example.com", 0)
    assert lookups.addresses("one-more.example.com", 5) == ()

    gate.set()
    assert lookups.addresses("slow0.example.com", 5) == ("93.184.216.34",)
    assert lookups.addresses(f"slow{lookup.MOST_WAITING - 1}.example.com", 5) == ("93.184.216.34",)
    assert lookups.addresses("one-more.example.com", 5) == ("93.184.216.34",)
    assert asked.count("one-more.example.com") == 1


def test_an_answer_is_forgotten_after_a_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([("93.184.216.34",), ("93.184.216.35",)])
    lookups = Lookups(lambda _: next(answers))
    assert lookups.addresses("example.com") == lookups.addresses("example.com") == ("93.184.216.34",)

    later = time.monotonic() + lookup.KEPT_SECONDS + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert lookups.addresses("example.com") == ("93.184.216.35",)


def test_a_literal_and_nonsense_resolve_or_do_not() -> None:
    assert lookup.resolve("127.0.0.1") == ("127.0.0.1",)
    assert lookup.resolve("a..b") == ()
    assert lookup.resolve("x" * 64 + ".example") == ()
