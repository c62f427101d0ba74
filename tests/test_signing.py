"""Standard Webhooks signatures: byte for byte, and as the reference library verifies them."""

import base64
import time

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from app.signing import SigningSecretInvalid, new_secret, sign

SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
KNOWN = [
    ('{"a":1}', "v1,YOREwC5BRUvI4ezImQEgEteB7JbPr/Iy2YCZe049/5g="),
    ('{"a": 1}', "v1,VOcxVsg/8VJMs0c48C0nzawvIY8VkzWdmlreNqX1Gyw="),
    ('{"n":"\u00e9\U0001f600"}', "v1,qeFkOTXcI3GnpAyi7k89eDo/4NSnf1FyUUhLZ0a3zws="),
    ("", "v1,1mgOj6TVhp3BSMcTTSkIcSqwMImLcuoATUkCX45722Q="),
]


def _key_of(length: int) -> str:
    return "whsec_" + base64.b64encode(bytes(range(length))).decode()


@pytest.mark.parametrize(("body", "signature"), KNOWN)
def test_a_known_message_has_the_known_signature(body: str, signature: str) -> None:
    assert sign([SECRET], "msg_1", 1_700_000_000, body.encode()) == signature


@pytest.mark.parametrize(
    "body", [b'{"a":1}', b'{"a": 1}', '{"n":"é😀"}'.encode(), b'{"n":"\\u0000"}', b"null", b"12345678901234567890"]
)
def test_the_reference_library_verifies_what_we_sign(body: bytes) -> None:
    secret, now = new_secret(), int(time.time())
    headers = {
        "webhook-id": "0193b7a4-0000-7000-8000-000000000001",
        "webhook-timestamp": str(now),
        "webhook-signature": sign([secret], "0193b7a4-0000-7000-8000-000000000001", now, body),
    }
    Webhook(secret).verify(body, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(body + b" ", headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(body, headers | {"webhook-id": "0193b7a4-0000-7000-8000-000000000002"})
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()).verify(body, headers)


def test_two_secrets_give_two_signatures_and_either_verifies() -> None:
    current, previous, now = new_secret(), new_secret(), int(time.time())
    both = sign([current, previous], "msg_1", now, b"{}")
    assert both == " ".join([sign([current], "msg_1", now, b"{}"), sign([previous], "msg_1", now, b"{}")])
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(now), "webhook-signature": both}
    for secret in (current, previous):
        assert Webhook(secret).verify(b"{}", headers) == {}


def test_a_new_secret_holds_32_random_bytes() -> None:
    first, second = new_secret(), new_secret()
    assert first != second
    assert first.startswith("whsec_")
    assert len(base64.b64decode(first.removeprefix("whsec_"), validate=True)) == 32


def test_missing_padding_changes_nothing() -> None:
    padded = _key_of(32)
    assert padded.endswith("=")
    assert sign([padded.rstrip("=")], "msg_1", 1, b"x") == sign([padded], "msg_1", 1, b"x")


@pytest.mark.parametrize("length", [24, 64])
def test_keys_of_24_to_64_bytes_sign(length: int) -> None:
    assert sign([_key_of(length)], "msg_1", 1, b"x").startswith("v1,")


@pytest.mark.parametrize(
    ("secret", "complaint"),
    [
        ("", "does not begin with whsec_"),
        ("AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", "does not begin with whsec_"),
        ("WHSEC_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", "does not begin with whsec_"),
        ("whsec_", "0 bytes"),
        ("whsec_secret!secret!secret!secret!secret", "not base64"),
        ("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX\n", "not base64"),
        ("whsec_AAECAwQFBgcI CQoLDA0ODxAREhMUFRYX", "not base64"),
        ("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXA", "not base64"),
        ("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRé", "not base64"),
        (_key_of(23), "23 bytes"),
        (_key_of(65), "65 bytes"),
    ],
)
def test_a_bad_secret_is_refused_with_a_reason_that_does_not_show_it(secret: str, complaint: str) -> None:
    with pytest.raises(SigningSecretInvalid, match=complaint) as refusal:
        sign([SECRET, secret], "msg_1", 1, b"x")
    held = secret.removeprefix("whsec_")
    assert not held or held not in str(refusal.value)


def test_no_secret_at_all_is_refused() -> None:
    with pytest.raises(SigningSecretInvalid, match="no signing secret"):
        sign([], "msg_1", 1, b"x")


def test_a_message_id_with_a_full_stop_is_refused() -> None:
    with pytest.raises(ValueError, match="full stop"):
        sign([SECRET], "msg.1", 1, b"x")
