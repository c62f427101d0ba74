"""The list of jobs: every filter, paging, counts, and what a filter that is not understood does."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
import redis
from flask import Flask
from sqlalchemy import Connection, Engine, text

from app.dashboard import job_list
from app.jobs import search
from tests.factories import Scene, make_client, make_job
from tests.pages import HOSTILE, Person, assert_text_only

HOST = "https://api.example.com:443"
ROW = re.compile(r'<tr id="job-([0-9a-f-]{36})"')


@pytest.fixture
def scene(engine: Engine, redis_client: redis.Redis, db_conn: Connection) -> Scene:
    return Scene.on(engine, redis_client, db_conn)


@pytest.fixture
def ada(app: Flask) -> Person:
    return Person(app, "ada", "operator")


@pytest.fixture
def vic(app: Flask) -> Person:
    return Person(app, "vic", "viewer")


def newest_first(*jobs: UUID) -> list[UUID]:
    """Ids made within one millisecond are in no order but their own."""
    return sorted(jobs, reverse=True)


def listed(page: str) -> list[UUID]:
    return [UUID(found) for found in ROW.findall(page)]


def job_of(at: datetime, scene: Scene, **columns: Any) -> UUID:
    """A job that was submitted at an instant, with an id of that time."""
    tail = UUID(int=search.first_id(at).int | 0x7000_8000_0000_0000_0000 | scene.count("jobs") + 1)
    return scene.job(**{"id": tail, "created_at": at, "run_at": at, **columns})


def test_lists_jobs_newest_first_and_leads_to_each(scene: Scene, ada: Person) -> None:
    jobs = [scene.job(type=f"kind.{number}", payload='"never in a list"') for number in range(3)]
    page = ada.get("/jobs/")
    assert listed(page) == newest_first(*jobs)
    assert f'href="/jobs/{jobs[0]}"' in page and "kind.2" in page
    assert "never in a list" not in page
    assert "3 of 3" in page


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("status=dead", {"status": "dead"}),
        ("status=dead&status=cancelled", {"status": "cancelled"}),
        ("type=email.send", {"type": "email.send"}),
        ("host=api.example.com", {"callback_host": HOST}),
        ("host=https://api.example.com", {"callback_host": HOST}),
        ("host=api.example.com:443", {"callback_host": HOST}),
        ("error=tls", {"status": "dead", "last_error_class": "tls"}),
        ("q=order-1", {"idempotency_key": "order-1"}),
        ("since=1h", {}),
        (
            "type=email.send&status=done&host=api.example.com",
            {"type": "email.send", "status": "done", "callback_host": HOST},
        ),
    ],
)
def test_finds_by_each_filter_and_nothing_else(scene: Scene, ada: Person, query: str, columns: dict[str, Any]) -> None:
    long_ago = scene.now() - timedelta(days=3)
    job_of(long_ago, scene, callback_host="http://api.example.org:9000", idempotency_key="order-11")
    wanted = scene.job(**{"created_at": scene.now(), **columns})
    page = ada.get(f"/jobs/?{query}")
    assert listed(page) == [wanted]
    assert "1 of 1" in page


def test_finds_by_client_and_by_cron_entry(scene: Scene, ada: Person) -> None:
    other = make_client(scene.conn, "other")
    entry = scene.entry()
    mine, theirs, made = scene.job(), make_job(scene.conn, other), scene.job(cron_entry_id=entry)
    assert listed(ada.get("/jobs/")) == newest_first(made, theirs, mine)
    assert listed(ada.get(f"/jobs/?client={other}")) == [theirs]
    assert listed(ada.get(f"/jobs/?cron={entry}")) == [made]


def test_one_key_of_several_clients_finds_all_of_them(scene: Scene, ada: Person) -> None:
    other = make_client(scene.conn, "other")
    jobs = [scene.job(idempotency_key="k"), make_job(scene.conn, other, idempotency_key="k")]
    scene.job(idempotency_key="kk")
    assert listed(ada.get("/jobs/?q=k")) == newest_first(*jobs)


def test_finds_by_the_beginning_of_an_id_with_or_without_hyphens(scene: Scene, ada: Person) -> None:
    wanted = scene.job(id=UUID("019ad0c2-7c4e-7a3b-9d51-0a4f3c2b1e60"))
    other = scene.job(id=UUID("019ad0c2-7c4f-7a3b-9d51-0a4f3c2b1e60"))
    for words in ("019ad0c2-7c4e", "019AD0C2-7C4E-", "019ad0c27c4e7a", " 019ad0c2-7c4e-7a3b-9d51-0a4f3c2b1e6 "):
        assert listed(ada.get(f"/jobs/?q={words.strip()}")) == [wanted], words
    assert listed(ada.get("/jobs/?q=019ad0c2")) == [other, wanted]
    assert listed(ada.get("/jobs/?q=019a-d0c2")) == []
    assert listed(ada.get("/jobs/?q=xyz")) == []


def test_a_key_that_looks_like_an_id_is_found_as_both(scene: Scene, ada: Person) -> None:
    by_id = scene.job(id=UUID("019ad0c2-7c4e-7a3b-9d51-0a4f3c2b1e60"), idempotency_key="019ad0c2")
    by_key = make_job(scene.conn, make_client(scene.conn, "other"), idempotency_key="019ad0c2")
    assert listed(ada.get("/jobs/?q=019ad0c2")) == [by_key, by_id]


def test_a_whole_id_leads_to_its_job(scene: Scene, ada: Person) -> None:
    job = scene.job()
    assert ada.redirected(f"/jobs/?q={job}") == f"/jobs/{job}"
    assert ada.redirected(f"/jobs/?q={job.hex}") == f"/jobs/{job}"
    assert listed(ada.get("/jobs/?q=00000000-0000-0000-0000-000000000000")) == []


def test_a_range_of_time_is_taken_in_the_viewers_zone_and_shared_in_utc(scene: Scene, ada: Person) -> None:
    inside = job_of(datetime(2026, 3, 1, 9, 30, tzinfo=UTC), scene)
    job_of(datetime(2026, 3, 1, 8, 59, 59, tzinfo=UTC), scene)
    job_of(datetime(2026, 3, 1, 10, 0, tzinfo=UTC), scene)
    ada.client.set_cookie("punctual_tz", "Europe/Berlin")
    there = ada.redirected("/jobs/?from=2026-03-01T10:00&until=2026-03-01T11:00&q=&type=")
    assert there == "/jobs/?from=2026-03-01T09:00:00Z&until=2026-03-01T10:00:00Z"
    page = ada.get(there)
    assert listed(page) == [inside]
    assert 'value="2026-03-01T10:00"' in page


def test_ids_of_a_host_whose_clock_is_wrong_are_found_by_when_they_were_accepted(scene: Scene, ada: Person) -> None:
    accepted = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
    job = job_of(accepted + timedelta(minutes=70), scene, created_at=accepted)
    assert listed(ada.get("/jobs/?from=2026-03-01T09:00:00Z&until=2026-03-01T10:00:00Z")) == [job]


@pytest.mark.parametrize(
    "query",
    [
        "status=gone",
        "client=x",
        "client=99999999999999999999",
        "cron=-1",
        "since=2y",
        "from=soon",
        "until=0001-01-01T00:00:00Z",
    ],
)
def test_a_filter_that_is_not_understood_shows_nothing_rather_than_everything(
    scene: Scene, ada: Person, query: str
) -> None:
    scene.job()
    page = ada.get(f"/jobs/?{query}")
    assert listed(page) == []
    assert "the filter cannot be used" in page
    ada.get(f"/jobs/bulk?action=delete&every=1&{query}", status=400)


def test_pages_follow_each_other_without_gap_or_repetition(
    scene: Scene, ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_list, "PAGE", 2)
    jobs = [scene.job(status=status) for status in ("done", "dead", "running", "dead", "done")]
    seen, path = [], "/jobs/?status=done&status=dead"
    while path:
        page = ada.get(path)
        seen += listed(page)
        scene.job(status="done")  # Newer ones do not move what comes after.
        following = re.search(r'href="([^"]+)" rel="next"', page)
        path = following.group(1).replace("&amp;", "&") if following else ""
    assert seen == newest_first(jobs[0], jobs[1], jobs[3], jobs[4])


def test_counts_follow_the_filter_and_say_about_when_they_are_estimates(
    scene: Scene, ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    for status in ("done", "done", "dead", "dead", "dead"):
        scene.job(status=status)
    assert "2 of 2" in ada.get("/jobs/?status=done")
    monkeypatch.setattr(search, "COUNT_CAP", 2)
    assert "2 of 2" in ada.get("/jobs/?status=done")
    assert "of about" in ada.get("/jobs/?status=dead")
    assert "of about" in ada.get("/jobs/")


def test_says_that_a_filter_takes_too_long(scene: Scene, ada: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.job()
    monkeypatch.setattr(search, "STATEMENT_TIMEOUT", text("SELECT set_config('statement_timeout', '50ms', true)"))
    monkeypatch.setattr(search, "_conditions", lambda _: [text("pg_sleep(1) IS NOT NULL")])
    assert "takes longer than three seconds" in ada.get("/jobs/?type=t")


def test_the_live_part_is_the_list_alone(scene: Scene, ada: Person) -> None:
    job = scene.job()
    part = ada.fragment("/jobs/?status=pending")
    assert listed(part) == [job]
    assert part.lstrip().startswith("<section") and 'id="jobs"' in part and "<html" not in part


def test_an_empty_list_says_what_to_do(scene: Scene, ada: Person, vic: Person) -> None:
    assert "There is no job yet" in ada.get("/jobs/") and "/jobs/new" in ada.get("/jobs/")
    assert "/jobs/new" not in vic.get("/jobs/")
    assert "No job matches" in ada.get("/jobs/?status=dead")


@pytest.mark.parametrize("hostile", HOSTILE)
def test_names_and_errors_from_outside_are_text(scene: Scene, ada: Person, hostile: str) -> None:
    make_job(
        scene.conn,
        make_client(scene.conn, hostile),
        status="dead",
        type=hostile,
        idempotency_key=hostile,
        last_error=hostile,
        last_error_class="http_5xx",
        callback_url=f"https://{hostile}/",
        callback_host=f"https://{hostile}:443",
    )
    for path in ("/jobs/", "/dead-letters/", "/jobs/new", "/jobs/bulk?action=retry&every=1"):
        assert_text_only(ada.get(path))
    for name in ("q", "type", "host", "client", "error", "from", "status"):
        page = ada.open("/jobs/", query_string={name: hostile}, follow_redirects=True).text
        # The field itself holds what was typed.
        assert_text_only(re.sub(r'<input class="form-control"[^>]*>', "", page))


@pytest.mark.parametrize("name", ["q", "type", "host", "error", "status", "client", "after"])
def test_a_nul_in_a_filter_finds_nothing(scene: Scene, ada: Person, name: str) -> None:
    scene.job()
    answer = ada.open("/jobs/", query_string={name: "a\0b"}, follow_redirects=True)
    assert answer.status_code == 200 and "\0" not in answer.text
