"""How long a wrong key takes does not tell where it is wrong (security, section 2)."""

import hmac
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction

from core.clock import database_now
from core.errors import Unauthenticated
from mailboxes import keys
from mailboxes.key_requests import rotate_secret
from mailboxes.key_services import create_key
from mailboxes.models import ApiKey
from mailboxes.selectors import StoredKey, key_by_lookup
from pylota.api.authentication import recognise
from tests.factories import TenantFactory
from tests.support.timing import leaks

pytestmark = pytest.mark.django_db

LOOKUP_AT, SECRET_AT = 9, 22
ROUNDS = 150
BOUND, BOUND_OF_COMPARING = 0.12, 0.05
"""Shares of a whole look-up, and of ten comparisons alone; noise is half of them."""


def changed(secret: str, at: int) -> str:
    """Return a key that differs in one character."""
    other = "1" if secret[at] == "0" else "0"
    return secret[:at] + other + secret[at + 1 :]


@pytest.fixture
def wrong() -> dict[str, str]:
    """Keys of the right form, each wrong in another way."""
    tenant = TenantFactory.create()
    plain, turned, revoked = (create_key(name="k", tenant=tenant) for _ in range(3))
    caller = recognise(f"Bearer {create_key(name='p').secret}").caller()
    with transaction.atomic():
        rotate_secret(turned.key.id, overlap_hours=9, caller=caller)
    ApiKey.objects.filter(id=revoked.key.id).update(revoked_at=database_now())
    last = len(plain.secret) - 1
    return {
        "the last character of the secret": changed(plain.secret, last),
        "its first character": changed(plain.secret, SECRET_AT),
        "the first character of the lookup": changed(plain.secret, LOOKUP_AT),
        "the last of the lookup": changed(plain.secret, SECRET_AT - 2),
        "the secret before": changed(turned.secret, last),
        "a revoked key": changed(revoked.secret, last),
        "the mode": plain.secret.replace("pmk_live", "pmk_test"),
    }


def refuse(secret: str) -> None:
    with pytest.raises(Unauthenticated, match=r"^No usable API key\.$"):
        recognise(f"Bearer {secret}")


def look_up(secret: str) -> None:
    with suppress(Unauthenticated):
        recognise(f"Bearer {secret}")


def test_every_wrong_key_costs_one_mac_two_comparisons_and_one_statement(
    wrong: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    django_assert_num_queries: Any,
) -> None:
    calls: list[str] = []

    def counted(name: str, real: Any, *args: Any, **more: Any) -> Any:
        calls.append(name)
        return real(*args, **more)

    mac, compare = hmac.new, hmac.compare_digest
    monkeypatch.setattr(hmac, "new", partial(counted, "mac", mac))
    monkeypatch.setattr(hmac, "compare_digest", partial(counted, "same", compare))
    for secret in wrong.values():
        with django_assert_num_queries(1):
            refuse(secret)
        assert calls == ["mac", "same", "same"]
        calls.clear()


def test_a_wrong_key_takes_as_long_wherever_it_is_wrong(wrong: dict[str, str]) -> None:
    found = leaks(
        {kind: partial(look_up, secret) for kind, secret in wrong.items()},
        rounds=ROUNDS,
        bound=BOUND,
    )

    assert found == {}


def test_comparing_takes_as_long_whatever_is_compared(wrong: dict[str, str]) -> None:
    found = leaks(
        {kind: partial(compare, *stored_for(key)) for kind, key in wrong.items()},
        rounds=2 * ROUNDS,
        bound=BOUND_OF_COMPARING,
    )

    assert found == {}


def test_a_comparison_that_stops_early_would_be_noticed(wrong: dict[str, str]) -> None:
    def careless(secret: str, stored: StoredKey) -> None:
        if stored.exists:  # no MAC for a key that is not there
            compare(secret, stored)

    found = leaks(
        {kind: partial(careless, *stored_for(key)) for kind, key in wrong.items()},
        rounds=2 * ROUNDS,
        bound=BOUND_OF_COMPARING,
    )

    assert set(found) == {
        "the first character of the lookup",
        "the last of the lookup",
    }
    assert all(share < 0 for share in found.values())


def stored_for(secret: str) -> tuple[str, StoredKey]:
    return secret, key_by_lookup(secret[LOOKUP_AT : LOOKUP_AT + 12])


def compare(secret: str, stored: StoredKey) -> None:
    for _ in range(10):
        keys.matches(
            settings.PM_KEY_PEPPER,
            secret,
            current=stored.hash,
            previous=stored.previous_hash,
        )
