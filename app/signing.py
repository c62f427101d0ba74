"""Signatures of callbacks by Standard Webhooks (the symmetric scheme, v1), and the secrets they are made with."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets as random_source
from collections.abc import Sequence
from functools import lru_cache

SECRET_PREFIX = "whsec_"
NEW_KEY_BYTES = 32
# The bounds the specification gives for a key.
MIN_KEY_BYTES, MAX_KEY_BYTES = 24, 64

_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")


class SigningSecretInvalid(ValueError):
    """A secret that cannot sign. The message says what is wrong and never shows the secret."""


def new_secret() -> str:
    """A fresh secret: `whsec_` and 32 random bytes in base64."""
    return SECRET_PREFIX + base64.b64encode(random_source.token_bytes(NEW_KEY_BYTES)).decode("ascii")


def sign(secrets: Sequence[str], message_id: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature`: one `v1,…` for each secret, in their order, with spaces between.

    Signed is `message_id.timestamp.body`, the timestamp in whole Unix seconds, with HMAC-SHA256. `message_id` may hold
    no full stop, which would make that ambiguous. Raises SigningSecretInvalid for a bad secret or none at all.
    """
    if not secrets:
        raise SigningSecretInvalid("There is no signing secret: a callback is signed with at least one.")
    if "." in message_id:
        raise ValueError("A message id may not hold a full stop.")
    message = b"%s.%d.%s" % (message_id.encode(), timestamp, body)
    return " ".join(f"v1,{_signature(_key(secret), message)}" for secret in secrets)


def _signature(key: bytes, message: bytes) -> str:
    return base64.b64encode(hmac.digest(key, message, "sha256")).decode("ascii")


# Every callback of a client is signed with the same one or two secrets.
@lru_cache(maxsize=4096)
def _key(secret: str) -> bytes:
    """The key inside a secret. Padding may be missing, as the reference libraries allow."""
    if not secret.startswith(SECRET_PREFIX):
        raise SigningSecretInvalid(f"The signing secret does not begin with {SECRET_PREFIX}.")
    text = secret[len(SECRET_PREFIX) :]
    try:
        if _BASE64.fullmatch(text) is None:
            raise binascii.Error
        digits = text.rstrip("=")
        key = base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)
    except binascii.Error:
        raise SigningSecretInvalid(f"What follows {SECRET_PREFIX} in the signing secret is not base64.") from None
    if not MIN_KEY_BYTES <= len(key) <= MAX_KEY_BYTES:
        raise SigningSecretInvalid(
            f"The signing secret holds {len(key)} bytes: it takes {MIN_KEY_BYTES} to {MAX_KEY_BYTES}."
        )
    return key
