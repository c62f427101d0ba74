"""Passwords: what is accepted, and how they are hashed without holding up other requests."""

from __future__ import annotations

import secrets
import sys
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

T = TypeVar("T")

MIN_LENGTH = 10
MAX_LENGTH = 256
MIN_DIFFERENT = 4
# Argon2id with the least that OWASP's Password Storage Cheat Sheet recommends: 19 MiB, two passes, one lane. A hash takes
# about 20 ms and little enough memory for several sign-ins at once on a small machine.
_hasher = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)


class PasswordRefused(ValueError):
    """A password that may not be used; the message says why and never shows it."""


def check_password(password: str, user_name: str) -> None:
    """Raises PasswordRefused unless it has 10 to 256 characters, four different ones, and is not the user's name.

    Length is what counts: no rule asks for digits or signs (NIST SP 800-63B section 5.1.1.2).
    """
    password = _normal(password)
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        raise PasswordRefused(f"The password takes {MIN_LENGTH} to {MAX_LENGTH} characters.")
    if len(set(password)) < MIN_DIFFERENT:
        raise PasswordRefused(f"The password repeats itself: it takes at least {MIN_DIFFERENT} different characters.")
    if password.casefold().replace(user_name.casefold(), "") == "":
        raise PasswordRefused("The password is the user's name: choose another one.")


def generate_password() -> str:
    """A random password of 24 url-safe characters (144 bits)."""
    return secrets.token_urlsafe(18)


def hash_password(password: str) -> str:
    """The argon2id hash of a password."""
    return _off_the_loop(_hasher.hash, _normal(password))


def is_password(password_hash: str | None, password: str) -> bool:
    """Whether the password belongs to the hash. None (nobody of that name) takes as long as any other refusal."""
    if len(password) > MAX_LENGTH:
        return False
    try:
        _off_the_loop(_hasher.verify, password_hash or _nobodys_hash(), _normal(password))
    except (Argon2Error, InvalidHashError):
        return False
    return password_hash is not None


def is_outdated(password_hash: str) -> bool:
    """Whether the hash was made with other parameters than today's."""
    return _hasher.check_needs_rehash(password_hash)


@cache
def _nobodys_hash() -> str:
    return _hasher.hash(secrets.token_urlsafe())


def _normal(password: str) -> str:
    """One form for what keyboards and systems type differently (NIST SP 800-63B asks for NFKC)."""
    return unicodedata.normalize("NFKC", password)


def _off_the_loop(function: Callable[..., T], *args: Any) -> T:
    """In gevent's thread pool where gevent drives this process: a hash would hold up every other request for its length."""
    if "gevent.monkey" in sys.modules:
        from gevent import get_hub
        from gevent.monkey import is_module_patched

        if is_module_patched("threading"):
            result: T = get_hub().threadpool.apply(function, args)
            return result
    return function(*args)
