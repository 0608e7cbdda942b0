"""Signatures of webhooks, by the verifier that receivers use."""

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from webhooks.signing import new_secret, signed_headers

EVENT = "evt_01K00000000000000000000000"
BODY = '{"data":{"name":"Zoë 🐢"},"id":"evt"}'.encode()


def test_a_secret_is_its_prefix_and_32_random_bytes() -> None:
    one, other = new_secret(), new_secret()

    assert one.startswith("whsec_")
    assert len(base64.b64decode(one.removeprefix("whsec_"), validate=True)) == 32
    assert one != other


def test_the_librarys_own_verifier_accepts_what_we_sign() -> None:
    secret, now = new_secret(), datetime.now(UTC)

    headers = signed_headers(EVENT, BODY, keys=[secret], at=now)

    assert Webhook(secret).verify(BODY, headers)["id"] == "evt"
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()).verify(BODY, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(BODY + b" ", headers)


def test_while_two_secrets_count_both_verify_and_the_new_one_comes_first() -> None:
    new, old, now = new_secret(), new_secret(), datetime.now(UTC)

    headers = signed_headers(EVENT, BODY, keys=[new, old], at=now)

    first, second = headers["webhook-signature"].split(" ")
    assert signed_headers(EVENT, BODY, keys=[new], at=now)["webhook-signature"] == first
    assert first != second
    for secret in (new, old):
        Webhook(secret).verify(BODY, headers)


def test_a_signature_is_the_hmac_that_the_contract_names() -> None:
    secret = "whsec_" + base64.b64encode(bytes(range(32))).decode()
    at = datetime(2026, 11, 2, 9, 15, 20, 999000, tzinfo=UTC)

    headers = signed_headers(EVENT, BODY, keys=[secret], at=at)

    stamp = str(int(datetime(2026, 11, 2, 9, 15, 20, tzinfo=UTC).timestamp()))
    signed = f"{EVENT}.{stamp}.".encode() + BODY
    digest = hmac.new(bytes(range(32)), signed, hashlib.sha256).digest()
    assert headers == {
        "webhook-id": EVENT,
        "webhook-timestamp": stamp,
        "webhook-signature": "v1," + base64.b64encode(digest).decode(),
    }


def test_an_old_timestamp_is_refused_by_the_verifier() -> None:
    secret = new_secret()
    old = datetime.now(UTC) - timedelta(minutes=6)

    headers = signed_headers(EVENT, BODY, keys=[secret], at=old)

    with pytest.raises(WebhookVerificationError, match="too old"):
        Webhook(secret).verify(BODY, headers)
