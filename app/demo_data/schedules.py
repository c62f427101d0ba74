"""Thirty made-up cron entries: their schedules, policies and receivers, and what has kept them from running. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from app.occurrences import Reason


@dataclass(frozen=True, slots=True)
class Gap:
    """From when to when (hours ago) an entry did not run, and why."""

    from_hours: float
    to_hours: float
    reason: Reason
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """One entry. `path` is the demo receiver's; `age_hours`: how long it has been there; `paused_hours`: since when it is paused.

    `lost_zone` is a name that the zones no longer hold, `lost_hours` ago put in the place of `timezone`: the error that disables it.
    """

    client: str
    name: str
    expression: str
    timezone: str = "UTC"
    type: str
    path: str = "/hook"
    overlap: str = "skip"
    catch_up: str = "one"
    jitter_seconds: int = 0
    max_attempts: int = 5
    timeout_seconds: float = 10.0
    retry_seconds: float | None = None
    age_hours: float = 24.0 * 40
    description: str | None = None
    gaps: tuple[Gap, ...] = ()
    paused_hours: float | None = None
    pause_reason: str | None = None
    lost_zone: str | None = None
    lost_hours: float = 5.2


BILLING, GROWTH, PLATFORM = "demo-billing", "demo-growth", "demo-platform"

SKETCHES = (
    Sketch(client=PLATFORM, name="heartbeat", expression="* * * * *", type="heartbeat", overlap="allow", age_hours=5.5,
           description="Tells the status page that jobs are running."),
    Sketch(client=PLATFORM, name="queue-watch", expression="*/2 * * * *", type="queue.measure", path="/hook-slow?seconds=2",
           age_hours=3.1, catch_up="none"),
    Sketch(client=PLATFORM, name="replica-sync", expression="*/5 * * * *", type="replica.sync", path="/hook-flaky?fails=1",
           retry_seconds=400.0, age_hours=30.0, description="Needs a second try each time, so every other time is skipped."),
    Sketch(client=PLATFORM, name="cache-warm", expression="*/5 * * * *", type="cache.warm", path="/hook-slow?seconds=4",
           jitter_seconds=45, catch_up="none"),
    Sketch(client=BILLING, name="payment-retry", expression="*/10 8-20 * * *", timezone="Europe/Zurich", type="payment.retry",
           path="/hook-flaky?fails=1"),
    Sketch(client=GROWTH, name="mail-queue", expression="*/15 * * * *", type="mail.flush", path="/hook-flaky?fails=1",
           overlap="buffer_one"),
    Sketch(client=PLATFORM, name="legacy-export", expression="12 * * * *", type="legacy.export", path="/hook-fail",
           max_attempts=3, catch_up="none", description="Its receiver has been broken for days."),
    Sketch(client=GROWTH, name="crm-delta", expression="*/15 * * * *", type="crm.delta", jitter_seconds=120,
           gaps=(Gap(6.6, 5.1, "paused", "The CRM is being migrated."),)),
    Sketch(client=PLATFORM, name="search-refresh", expression="3-59/20 * * * *", type="search.refresh",
           path="/hook-slow?seconds=6", overlap="cancel_previous"),
    Sketch(client=BILLING, name="exchange-rates", expression="5 * * * *", timezone="Europe/London", type="rates.fetch"),
    Sketch(client=BILLING, name="dunning", expression="30 9 * * 1-5", timezone="Europe/Berlin", type="dunning.run"),
    Sketch(client=BILLING, name="invoices-monthly", expression="0 6 1 * *", timezone="Europe/Zurich",
           type="invoice.batch", catch_up="all"),
    Sketch(client=BILLING, name="ledger-close", expression="45 23 * * *", timezone="America/New_York", type="ledger.close"),
    Sketch(client=BILLING, name="tax-report", expression="0 4 1 1,4,7,10 *", timezone="Europe/Paris", type="tax.report"),
    Sketch(client=BILLING, name="card-expiry", expression="15 7 * * *", timezone="Asia/Tokyo", type="card.remind"),
    Sketch(client=BILLING, name="fraud-scores", expression="*/30 * * * *", type="fraud.score", path="/hook-slow?seconds=3",
           catch_up="all", gaps=(Gap(2.9, 2.4, "changed"),)),
    Sketch(client=GROWTH, name="weekly-digest", expression="0 8 * * mon", timezone="America/Los_Angeles", type="digest.send"),
    Sketch(client=GROWTH, name="trial-reminders", expression="0 10,16 * * *", timezone="Australia/Sydney", type="trial.remind",
           path="/hook-flaky?fails=1"),
    Sketch(client=GROWTH, name="birthday-mails", expression="30 7 * * *", timezone="Asia/Kolkata", type="birthday.mail"),
    Sketch(client=GROWTH, name="churn-model", expression="20 2 * * *", timezone="America/Sao_Paulo", type="churn.train",
           path="/hook-slow?seconds=8"),
    Sketch(client=GROWTH, name="segment-rebuild", expression="0 */4 * * *", type="segment.rebuild", path="/hook-slow?seconds=5"),
    Sketch(client=GROWTH, name="survey", expression="0 12 * * fri", timezone="Europe/Madrid", type="survey.send"),
    Sketch(client=GROWTH, name="black-friday", expression="0 6 * 11 *", timezone="America/New_York", type="campaign.start"),
    Sketch(client=PLATFORM, name="backup", expression="30 2 * * *", timezone="Europe/Zurich", type="backup.run",
           path="/hook-slow?seconds=9", max_attempts=8),
    Sketch(client=PLATFORM, name="certificates", expression="@daily", type="certificate.check"),
    Sketch(client=PLATFORM, name="disk-report", expression="@hourly", type="disk.report", jitter_seconds=300),
    Sketch(client=PLATFORM, name="thumbnail-sweep", expression="40 */2 * * *", type="thumbnail.sweep"),
    Sketch(client=PLATFORM, name="log-archive", expression="10 1 * * *", timezone="Pacific/Auckland", type="log.archive"),
    Sketch(client=PLATFORM, name="partner-feed", expression="*/20 * * * *", timezone="Europe/Lisbon", type="partner.feed",
           paused_hours=7.3, pause_reason="The partner's sandbox is down until Thursday."),
    Sketch(client=PLATFORM, name="west-coast-report", expression="0 * * * *", timezone="America/Los_Angeles", type="report.build",
           lost_zone="US/Pacific-New"),
)  # fmt: skip
