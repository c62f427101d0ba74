"""Quotas: a sliding window in Redis, exact under parallel requests, passed by while Redis is away."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Engine

from app.api_keys import create_api_key
from app.rate_limit import Window, hit
from app.redis_client import Bypass, make_redis
from app.stores import Stores
from app.stream import Stream

MINUTE = 60_000_000


@pytest.fixture
def web_stores(app: Flask, redis_client: redis.Redis) -> Stores:
    """The application's stores with more patience: on a busy machine an answer may take longer than web would wait."""
    stores: Stores = app.extensions["punctual"]
    return Stores(stores.engine, Stream(redis_client, stores.stream.keys), Bypass())


def hits(stores: Stores, limit: int, count: int, window_seconds: int = 60) -> list[Window]:
    made = [hit(stores, "{test:window}", limit, window_seconds) for _ in range(count)]
    return [window for window in made if window is not None]


def grow_older(client: redis.Redis, microseconds: int) -> None:
    """Moves the hits of the window into the past."""
    times = [int(time) for time in client.lrange("{test:window}", 0, -1)]
    client.delete("{test:window}")
    client.rpush("{test:window}", *(time - microseconds for time in times))


def test_hits_are_admitted_up_to_the_limit(web_stores: Stores) -> None:
    windows = hits(web_stores, 3, 5)
    assert [window.is_admitted for window in windows] == [True, True, True, False, False]
    assert [window.remaining for window in windows] == [2, 1, 0, 0, 0]
    assert all(59 <= window.reset_seconds <= 60 for window in windows)


def test_the_window_slides(web_stores: Stores, redis_client: redis.Redis) -> None:
    hits(web_stores, 3, 2)
    grow_older(redis_client, MINUTE // 2)
    assert [window.is_admitted for window in hits(web_stores, 3, 2)] == [True, False]
    grow_older(redis_client, MINUTE // 2)
    windows = hits(web_stores, 3, 3)
    assert [window.is_admitted for window in windows] == [True, True, False]
    assert 29 <= windows[-1].reset_seconds <= 30


def test_a_refused_hit_takes_no_place_and_looking_neither(web_stores: Stores, redis_client: redis.Redis) -> None:
    hits(web_stores, 2, 9)
    looked = hit(web_stores, "{test:window}", 3, count=False)
    assert looked == Window(True, 3, 1, looked.reset_seconds if looked else 0)
    assert redis_client.llen("{test:window}") == 2


def test_after_a_limit_was_lowered_retry_after_is_when_a_place_is_free(
    web_stores: Stores, redis_client: redis.Redis
) -> None:
    hits(web_stores, 10, 2)
    grow_older(redis_client, MINUTE // 2)
    hits(web_stores, 10, 2)
    window = hits(web_stores, 2, 1)[0]
    # The two older hits leave in 30 s, and with them gone two are still too many.
    assert (window.is_admitted, window.remaining) == (False, 0)
    assert 59 <= window.reset_seconds <= 60


def test_a_clock_set_back_neither_disorders_nor_prolongs_the_window(
    web_stores: Stores, redis_client: redis.Redis
) -> None:
    hits(web_stores, 3, 1)
    grow_older(redis_client, -MINUTE)
    windows = hits(web_stores, 2, 2)
    assert [window.is_admitted for window in windows] == [True, False]
    assert windows[-1].reset_seconds == 60
    times = redis_client.lrange("{test:window}", 0, -1)
    assert times == sorted(times)


def test_a_window_goes_with_its_last_hit(web_stores: Stores, redis_client: redis.Redis) -> None:
    hits(web_stores, 3, 1, window_seconds=60)
    assert 59_000 < redis_client.pttl("{test:window}") <= 60_000


def test_parallel_hits_never_pass_more_than_the_limit(web_stores: Stores) -> None:
    with ThreadPoolExecutor(16) as pool:
        windows = list(pool.map(lambda _: hit(web_stores, "{test:window}", 50), range(200)))
    assert sum(window is not None and window.is_admitted for window in windows) == 50
    assert None not in windows


def test_every_answer_says_what_is_left_and_the_last_when_to_come_back(client: FlaskClient, engine: Engine) -> None:
    headers = {"Authorization": f"Bearer {create_api_key(engine, 'demo', rate_limit=2).key}"}
    answers = [client.get("/v1/jobs", headers=headers) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert [answer.headers["RateLimit-Limit"] for answer in answers] == ["2"] * 3
    assert [answer.headers["RateLimit-Remaining"] for answer in answers] == ["1", "0", "0"]
    assert all(1 <= int(answer.headers["RateLimit-Reset"]) <= 60 for answer in answers)
    assert 1 <= int(answers[-1].headers["Retry-After"]) <= 60
    assert answers[-1].get_json()["error"]["code"] == "rate_limited"


def test_the_quota_is_the_clients_over_all_its_keys_and_nobody_elses(client: FlaskClient, engine: Engine) -> None:
    keys = [create_api_key(engine, "demo", rate_limit=2).key for _ in range(2)]
    other = create_api_key(engine, "other", rate_limit=2).key
    statuses = [client.get("/v1/jobs", headers={"Authorization": f"Bearer {key}"}).status_code for key in keys * 2]
    assert statuses == [200, 200, 429, 429]
    assert client.get("/v1/jobs", headers={"Authorization": f"Bearer {other}"}).status_code == 200


def test_without_a_limit_of_its_own_a_client_has_the_default_one(client: FlaskClient, engine: Engine) -> None:
    headers = {"Authorization": f"Bearer {create_api_key(engine, 'demo').key}"}
    assert client.get("/v1/jobs", headers=headers).headers["RateLimit-Limit"] == "1200"


def test_while_redis_is_away_requests_pass(
    app: Flask, client: FlaskClient, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores: Stores = app.extensions["punctual"]
    nowhere = Stream(make_redis("unix:///nowhere/redis.sock", 0.3), stores.stream.keys)
    monkeypatch.setitem(app.extensions, "punctual", Stores(stores.engine, nowhere, Bypass()))
    headers = {"Authorization": f"Bearer {create_api_key(engine, 'demo', rate_limit=1).key}"}
    answers = [client.get("/v1/jobs", headers=headers) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200] * 3
    assert all("RateLimit-Remaining" not in answer.headers for answer in answers)
    monkeypatch.undo()
    assert "RateLimit-Remaining" in client.get("/v1/jobs", headers=headers).headers
