"""API keys: making, revoking and expiring them, and who may pass with which."""

from __future__ import annotations

import hashlib
import re
from ipaddress import ip_network

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine, text
from werkzeug.test import TestResponse

from app.api_keys import KeyInvalid, create_api_key, list_api_keys, look_up, revoke_api_key
from app.clients import ClientInvalid
from app.config import Settings
from tests.eventually import eventually

BAD_KEY = "pk_" + "A" * 43


def ask(client: FlaskClient, authorization: str | None, address: str = "127.0.0.1", **headers: str) -> TestResponse:
    if authorization is not None:
        headers["Authorization"] = authorization
    return client.get("/v1/jobs", headers=headers, environ_base={"REMOTE_ADDR": address})


def test_a_key_is_43_url_safe_characters_and_only_its_hash_is_kept(engine: Engine, db_conn: Connection) -> None:
    made = create_api_key(engine, "demo", label="nightly")
    assert re.fullmatch(r"pk_[A-Za-z0-9_-]{43}", made.key)
    assert made.key.startswith(made.prefix)
    row = db_conn.execute(text("SELECT * FROM api_keys")).mappings().one()
    assert row["hashed_key"] == hashlib.sha256(made.key.encode()).digest()
    assert made.key not in str(dict(row))


def test_a_client_is_made_once_with_a_signing_secret_of_its_own(engine: Engine, db_conn: Connection) -> None:
    first = create_api_key(engine, "demo")
    assert create_api_key(engine, " demo ", rate_limit=60).client_id == first.client_id
    assert create_api_key(engine, "other").client_id != first.client_id
    rows = db_conn.execute(text("SELECT name, rate_limit_per_minute, signing_secret FROM clients ORDER BY id")).all()
    assert [(row.name, row.rate_limit_per_minute) for row in rows] == [("demo", 60), ("other", None)]
    assert len({row.signing_secret for row in rows}) == 2
    assert all(row.signing_secret.startswith("whsec_") for row in rows)


@pytest.mark.parametrize("name", ["", " ", "a\nb", "a\0b", "x" * 129])
def test_a_client_name_that_cannot_be_shown_is_refused(engine: Engine, name: str) -> None:
    with pytest.raises(ClientInvalid):
        create_api_key(engine, name)


def test_limits_out_of_range_are_refused_and_leave_nothing_behind(engine: Engine, db_conn: Connection) -> None:
    with pytest.raises(ClientInvalid):
        create_api_key(engine, "demo", rate_limit=0)
    with pytest.raises(KeyInvalid):
        create_api_key(engine, "demo", expires_in_days=0)
    with pytest.raises(KeyInvalid):
        create_api_key(engine, "demo", label="x" * 129)
    assert db_conn.execute(text("SELECT count(*) FROM clients")).scalar_one() == 0


def test_a_good_key_passes_whatever_the_case_of_its_scheme(client: FlaskClient, engine: Engine) -> None:
    key = create_api_key(engine, "demo").key
    for scheme in ("Bearer", "bearer", "BEARER"):
        assert ask(client, f"{scheme} {key}").status_code == 200


def test_every_refusal_is_the_same(client: FlaskClient, engine: Engine, db_conn: Connection) -> None:
    revoked, expired = create_api_key(engine, "demo"), create_api_key(engine, "demo", expires_in_days=1)
    assert revoke_api_key(engine, revoked.prefix) == "revoked"
    db_conn.execute(
        text("UPDATE api_keys SET expires_at = punctual_now() WHERE prefix = :prefix"), {"prefix": expired.prefix}
    )
    tried = [None, "", "Bearer", "Bearer nonsense", f"Bearer {BAD_KEY}", f"Basic {BAD_KEY}", f"Bearer {revoked.key} x"]
    tried += [f"Bearer {revoked.key}", f"Bearer {expired.key}", "Bearer pk_\u00fc", BAD_KEY]
    answers = [ask(client, authorization) for authorization in tried]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.get_data() for answer in answers}) == 1
    assert {answer.headers["WWW-Authenticate"] for answer in answers} == {"Bearer"}
    assert answers[0].get_json()["error"]["code"] == "unauthorized"


def test_a_key_that_was_in_use_is_refused_soon_after_it_is_revoked(client: FlaskClient, engine: Engine) -> None:
    made = create_api_key(engine, "demo")
    assert ask(client, f"Bearer {made.key}").status_code == 200
    revoke_api_key(engine, made.prefix)
    eventually(lambda: ask(client, f"Bearer {made.key}").status_code == 401, timeout=2.0)


def test_revoking_twice_says_so_and_an_unknown_prefix_too(engine: Engine) -> None:
    made = create_api_key(engine, "demo")
    assert [revoke_api_key(engine, made.prefix) for _ in range(2)] == ["revoked", "already"]
    assert revoke_api_key(engine, "pk_unknown") == "missing"
    assert [key["state"] for key in list_api_keys(engine)] == ["revoked"]


def test_when_a_key_was_used_is_noted_once_a_minute(engine: Engine, db_conn: Connection) -> None:
    key = create_api_key(engine, "demo").key
    last_used = text("SELECT last_used_at FROM api_keys")
    assert db_conn.execute(last_used).scalar_one() is None
    look_up(engine, key)
    noted = db_conn.execute(last_used).scalar_one()
    assert noted is not None
    look_up(engine, key)
    assert db_conn.execute(last_used).scalar_one() == noted
    db_conn.execute(text("UPDATE api_keys SET last_used_at = last_used_at - interval '61 seconds'"))
    look_up(engine, key)
    assert db_conn.execute(last_used).scalar_one() > noted


def test_noting_the_use_waits_for_nobody(engine: Engine) -> None:
    key = create_api_key(engine, "demo").key
    with engine.begin() as other:
        other.execute(text("SELECT FROM api_keys FOR UPDATE"))
        assert look_up(engine, key) is not None


def test_a_use_that_cannot_be_noted_fails_no_request(client: FlaskClient, engine: Engine, db_conn: Connection) -> None:
    key = create_api_key(engine, "demo").key
    db_conn.execute(text("ALTER TABLE api_keys ADD CONSTRAINT unused CHECK (last_used_at IS NULL)"))
    try:
        assert ask(client, f"Bearer {key}").status_code == 200
    finally:
        db_conn.execute(text("ALTER TABLE api_keys DROP CONSTRAINT unused"))


def test_twenty_bad_keys_a_minute_earn_a_429_and_a_good_key_still_passes(client: FlaskClient, engine: Engine) -> None:
    answers = [ask(client, f"Bearer {BAD_KEY}").status_code for _ in range(20)]
    assert answers == [401] * 20
    refused = ask(client, f"Bearer {BAD_KEY}")
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert refused.get_json()["error"]["code"] == "rate_limited"
    assert ask(client, f"Bearer {create_api_key(engine, 'demo').key}").status_code == 200
    assert ask(client, f"Bearer {BAD_KEY}", address="198.51.100.7").status_code == 401


def test_requests_without_a_key_are_no_guesses(client: FlaskClient) -> None:
    assert {ask(client, None).status_code for _ in range(25)} == {401}


def test_x_forwarded_for_counts_only_behind_trusted_proxies(
    app: Flask, client: FlaskClient, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask_from(address: str) -> int:
        return ask(client, f"Bearer {BAD_KEY}", **{"X-Forwarded-For": address}).status_code

    assert [ask_from(f"203.0.113.{n}") for n in range(21)] == [401] * 20 + [429]
    trusting = Settings(trusted_proxies=(ip_network("127.0.0.0/8"),))
    monkeypatch.setitem(app.extensions, "settings", trusting)
    assert [ask_from(f"203.0.113.{n}") for n in range(21)] == [401] * 21


def test_while_redis_is_away_bad_keys_are_still_refused(
    app: Flask, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = app.extensions["punctual"]
    monkeypatch.setattr(stores.bypass, "_closed_until", float("inf"))
    assert {ask(client, f"Bearer {BAD_KEY}").status_code for _ in range(25)} == {401}
