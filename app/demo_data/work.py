"""The jobs that three made-up clients send: their types, payloads, receivers, and how those have fared in the last day. Pure.

The hosts have names that nobody can own (RFC 2606: `.example`): whatever is retried from a page fails in the lookup.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from app.demo_data import failures as f
from app.demo_data.failures import Failure, Spell
from app.retry import DEFAULT_POLICY, RetryPolicy

CLIENTS = ("demo-billing", "demo-growth", "demo-platform")
NAMES = ("ada", "grace", "linus", "mary", "noor", "kofi", "yuki", "ines", "tomás", "zoë", "jörg", "amara")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One type of job to one receiver. `weight`: its share of all; `noise`: the share of first calls that fail at any time."""

    client: str
    type: str
    url: str
    weight: float
    median_ms: float
    payload: Callable[[Random], dict[str, Any]]
    answer: Callable[[Random], str]
    spread: float = 0.45
    server: str = "nginx"
    max_attempts: int = 5
    policy: RetryPolicy = DEFAULT_POLICY
    spells: tuple[Spell, ...] = ()
    noise: float = 0.006
    noise_failure: Failure = f.BAD_GATEWAY


def _invoice(rand: Random) -> dict[str, Any]:
    return {
        "invoice": f"INV-2026-{rand.randint(10_000, 99_999)}",
        "customer": rand.randint(1000, 9999),
        "amount": {"value": rand.randint(900, 250_000), "currency": rand.choice(("EUR", "CHF", "USD", "GBP"))},
        "lines": [
            {"sku": f"S-{rand.randint(100, 999)}", "quantity": rand.randint(1, 12)} for _ in range(rand.randint(1, 4))
        ],
    }


def _capture(rand: Random) -> dict[str, Any]:
    return {"payment": f"pay_{rand.getrandbits(56):014x}", "amount_minor": rand.randint(300, 90_000), "final": True}


def _mail(rand: Random) -> dict[str, Any]:
    template = rand.choice(("trial-ends", "unpaid-invoice", "weekly-digest", "come-back"))
    return {
        "to": f"{rand.choice(NAMES)}@customer.example",
        "template": template,
        "locale": rand.choice(("de", "en", "fr")),
    }


def _message(rand: Random) -> dict[str, Any]:
    return {"user": rand.randint(10_000, 99_999), "text": f"Your code is {rand.randint(100_000, 999_999)}"}


def _contact(rand: Random) -> dict[str, Any]:
    return {
        "contact": rand.randint(2**53, 2**60),
        "changed": rand.sample(("email", "plan", "owner", "address", "tags"), 2),
    }


def _image(rand: Random) -> dict[str, Any]:
    return {"key": f"uploads/{rand.getrandbits(40):010x}.jpg", "sizes": [64, 256, 1024], "crop": rand.random() < 0.5}


def _event(rand: Random) -> dict[str, Any]:
    return {
        "event": rand.choice(("order.created", "order.paid", "order.shipped", "order.returned")),
        "order": rand.randint(500_000, 599_999),
        "by": rand.choice(NAMES),
    }


def _index(rand: Random) -> dict[str, Any]:
    return {
        "index": rand.choice(("products", "articles", "people")),
        "ids": [rand.randint(1, 99_999) for _ in range(rand.randint(2, 9))],
    }


def _nothing(rand: Random) -> str:
    return ""


def _ok(rand: Random) -> str:
    return '{"ok":true}'


def _queued(rand: Random) -> str:
    return f'{{"status":"queued","id":"msg_{rand.getrandbits(48):012x}"}}'


def _booked(rand: Random) -> str:
    return f'{{"booked":true,"entry":{rand.randint(4_000_000, 4_999_999)},"ledger":"2026-12"}}'


KINDS = (
    Kind(
        client="demo-billing", type="invoice.run", url="https://ledger.northwind.example/hooks/invoices", weight=20,
        median_ms=140, payload=_invoice, answer=_booked,
        spells=(Spell(14.2, 13.6, 0.93, f.UNAVAILABLE), Spell(6.1, 5.8, 0.4, f.SERVER_ERROR), Spell(0.9, 0.75, 0.6, f.UNAVAILABLE)),
    ),
    Kind(
        client="demo-billing", type="payment.capture", url="https://api.acquirer.example/v2/captures", weight=14,
        median_ms=310, payload=_capture, answer=_ok, max_attempts=4, server="envoy",
        spells=(Spell(24, 0.4, 0.012, f.UNPROCESSABLE, sticks=True), Spell(3.4, 3.1, 0.7, f.NOT_ALLOWED), Spell(20.5, 20.2, 0.6, f.TIMED_OUT)),
    ),
    Kind(
        client="demo-growth", type="reminder.email", url="https://send.mailbird.example/v1/messages", weight=22,
        median_ms=85, payload=_mail, answer=_queued, server="cloudfront",
        spells=(Spell(10.1, 9.6, 0.5, f.TOO_MANY), Spell(2.1, 1.8, 0.45, f.TOO_MANY), Spell(17.8, 17.0, 0.6, f.CLOSED)),
    ),
    Kind(
        client="demo-growth", type="sms.send", url="https://gateway.textline.example/send", weight=10,
        median_ms=620, payload=_message, answer=_queued, spread=0.7, max_attempts=3,
        spells=(Spell(7.9, 7.2, 0.75, f.TIMED_OUT), Spell(12.6, 12.4, 0.7, f.NOT_REACHED)),
    ),
    Kind(
        client="demo-growth", type="crm.sync", url="https://hooks.relations.example/contacts", weight=9,
        median_ms=240, payload=_contact, answer=_nothing, spells=(Spell(5.2, 3.6, 0.93, f.CERTIFICATE),), server="Apache",
    ),
    Kind(
        client="demo-platform", type="order.event", url="https://partner.wholesale.example/events", weight=14,
        median_ms=60, payload=_event, answer=_ok, server="openresty",
        spells=(Spell(11.2, 10.9, 0.97, f.REFUSED), Spell(1.4, 1.3, 0.75, f.REFUSED)),
    ),
    Kind(
        client="demo-platform", type="thumbnail.render", url="https://render.pixelworks.example/v2/render", weight=6,
        median_ms=900, payload=_image, answer=_ok, spread=0.6, max_attempts=3, spells=(Spell(2.8, 0.6, 1.0, f.MOVED),),
    ),
    Kind(
        client="demo-platform", type="search.reindex", url="https://search.catalogue.example/_bulk", weight=4,
        median_ms=2200, payload=_index, answer=_ok, spread=0.5, max_attempts=3, noise=0.03, noise_failure=f.TIMED_OUT,
    ),
    Kind(
        client="demo-platform", type="order.event", url="https://shop.formerpartner.example/webhooks", weight=0.5,
        median_ms=70, payload=_event, answer=_ok, spells=(Spell(24, 8.5, 1.0, f.UNKNOWN_NAME), Spell(8.5, 0.4, 1.0, f.GONE)),
    ),
    Kind(
        client="demo-platform", type="stock.pull", url="http://warehouse.intranet.example:8090/levels", weight=0.5,
        median_ms=40, payload=lambda rand: {"site": rand.choice(("ZRH", "BER", "LYS"))}, answer=_ok, max_attempts=2,
        spells=(Spell(24, 0.4, 1.0, f.BLOCKED),), server="warehouse/1.9",
    ),
)  # fmt: skip
