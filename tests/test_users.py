"""Users: names, passwords, signing in, and what ends their sessions."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from argon2 import PasswordHasher
from sqlalchemy import Connection, Engine, text

from app.passwords import PasswordRefused, check_password, generate_password, hash_password, is_password
from app.users import (
    UserInvalid,
    create_user,
    disable_user,
    enable_user,
    end_sessions,
    find_user,
    find_user_by_name,
    list_users,
    set_password,
    sign_in,
)

PASSWORD = "correct horse battery"


def test_a_user_signs_in_with_name_in_any_case_and_password(engine: Engine) -> None:
    made = create_user(engine, "Ada", "admin", PASSWORD)
    assert (made.name, made.role, made.is_enabled, made.last_sign_in_at) == ("Ada", "admin", True, None)
    signed_in = sign_in(engine, "ada", PASSWORD)
    assert signed_in is not None
    assert signed_in.id == made.id
    assert signed_in.last_sign_in_at is not None


@pytest.mark.parametrize(
    ("name", "password"), [("ada", "correct horse"), ("bob", PASSWORD), ("a\0da", PASSWORD), ("", "")]
)
def test_a_wrong_name_or_password_signs_nobody_in(engine: Engine, name: str, password: str) -> None:
    create_user(engine, "ada", "admin", PASSWORD)
    assert sign_in(engine, name, password) is None


def test_an_unknown_name_takes_as_long_as_a_wrong_password(engine: Engine) -> None:
    create_user(engine, "ada", "admin", PASSWORD)

    def seconds(name: str) -> float:
        began_at = time.perf_counter()
        sign_in(engine, name, "something wrong")
        return time.perf_counter() - began_at

    seconds("nobody")
    unknown, wrong = (min(seconds(name) for _ in range(5)) for name in ("nobody", "ada"))
    assert 0.5 < unknown / wrong < 2


def test_the_password_itself_is_not_kept(engine: Engine, db_conn: Connection) -> None:
    create_user(engine, "ada", "admin", PASSWORD)
    kept = db_conn.execute(text("SELECT password_hash FROM users")).scalar_one()
    assert kept.startswith("$argon2id$")
    assert PASSWORD not in kept


def test_a_hash_of_older_parameters_is_made_anew_at_sign_in(engine: Engine, db_conn: Connection) -> None:
    create_user(engine, "ada", "admin", PASSWORD)
    old = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1).hash(PASSWORD)
    db_conn.execute(text("UPDATE users SET password_hash = :old"), {"old": old})
    assert sign_in(engine, "ada", PASSWORD) is not None
    assert db_conn.execute(text("SELECT password_hash FROM users")).scalar_one() != old
    assert sign_in(engine, "ada", PASSWORD) is not None


@pytest.mark.parametrize("name", ["", " ", "-ada", "a b", "a\nb", "a/b", "<img>", "ä", "x" * 65])
def test_a_bad_name_is_refused(engine: Engine, name: str) -> None:
    with pytest.raises(UserInvalid, match="user name"):
        create_user(engine, name, "admin", PASSWORD)


@pytest.mark.parametrize("name", ["a", "ada.lovelace@example.com", "7-of_9", "x" * 64])
def test_a_good_name_is_taken(engine: Engine, name: str) -> None:
    assert create_user(engine, name, "viewer", PASSWORD).name == name


def test_a_name_is_taken_once_whatever_its_case(engine: Engine) -> None:
    create_user(engine, "ada", "admin", PASSWORD)
    with pytest.raises(UserInvalid, match="already"):
        create_user(engine, "ADA", "viewer", PASSWORD)


def test_an_unknown_role_is_refused(engine: Engine) -> None:
    with pytest.raises(UserInvalid, match="viewer, operator, admin"):
        create_user(engine, "ada", "root", PASSWORD)


@pytest.mark.parametrize(
    "password", ["", "short", "123456789", "aaaaaaaaaaaa", "ababababab", "x" * 257, "ada.lovelace"]
)
def test_a_weak_password_is_refused_without_being_shown(password: str) -> None:
    with pytest.raises(PasswordRefused) as refusal:
        check_password(password, "ada.lovelace")
    assert not password or password == "ada.lovelace" or password not in str(refusal.value)


@pytest.mark.parametrize("password", ["0123456789", "lange wörter genügen", "x" * 250 + "abcd"])
def test_length_is_enough(password: str) -> None:
    check_password(password, "ada")


def test_a_generated_password_is_strong_enough() -> None:
    check_password(generate_password(), "ada.lovelace")


def test_one_password_typed_on_two_systems_is_one() -> None:
    assert is_password(hash_password("genu\u0308gend lang"), "gen\u00fcgend lang")


def test_another_password_ends_the_sessions(engine: Engine) -> None:
    made = create_user(engine, "ada", "admin", PASSWORD)
    changed = set_password(engine, "ada", "another fine password")
    assert changed is not None
    assert changed.session_epoch > made.session_epoch
    assert sign_in(engine, "ada", PASSWORD) is None
    assert sign_in(engine, "ada", "another fine password") is not None
    assert set_password(engine, "nobody", PASSWORD) is None


def test_a_disabled_user_is_out_at_once_and_stays_out_until_enabled(engine: Engine) -> None:
    made = create_user(engine, "ada", "admin", PASSWORD)
    disabled = disable_user(engine, "ADA")
    assert disabled is not None
    assert (disabled.is_enabled, disabled.session_epoch > made.session_epoch) == (False, True)
    assert sign_in(engine, "ada", PASSWORD) is None
    assert disable_user(engine, "ada") is None
    enabled = enable_user(engine, "ada")
    assert enabled is not None
    assert enabled.session_epoch > made.session_epoch
    assert sign_in(engine, "ada", PASSWORD) is not None
    assert enable_user(engine, "ada") is None


def test_signing_out_everywhere_raises_the_epoch(engine: Engine) -> None:
    made = create_user(engine, "ada", "admin", PASSWORD)
    end_sessions(engine, made.id)
    found = find_user(engine, made.id)
    assert found is not None
    assert found.session_epoch == made.session_epoch + 1
    assert find_user(engine, made.id + 1) is None


def test_users_are_listed_and_found_by_name(engine: Engine) -> None:
    for name in ("bob", "Ada"):
        create_user(engine, name, "viewer", PASSWORD)
    assert [person.name for person in list_users(engine)] == ["Ada", "bob"]
    found = find_user_by_name(engine, "BOB")
    assert found is not None
    assert found.name == "bob"


UNDER_GEVENT = """
from gevent import monkey; monkey.patch_all()
import time, gevent
from app.passwords import hash_password
gaps = []
def tick():
    last = time.perf_counter()
    while True:
        gevent.sleep(0.001)
        gaps.append(time.perf_counter() - last); last = time.perf_counter()
ticking = gevent.spawn(tick)
began_at = time.perf_counter()
for _ in range(10):
    hash_password("correct horse battery")
print(len(gaps) / (time.perf_counter() - began_at))
"""


def test_under_gevent_other_requests_go_on_while_a_password_is_hashed() -> None:
    """In the loop itself not one tick would come between two hashes."""
    command = [sys.executable, "-W", "ignore", "-c", UNDER_GEVENT]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    assert float(output) > 20
