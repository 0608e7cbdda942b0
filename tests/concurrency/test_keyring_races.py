"""Signing keys made and turned by many at once: one key signs, whatever the order."""

from collections.abc import Iterator
from functools import partial

import pytest

from mailboxes.keyring_services import current_key, forget_keys, rotate_key
from mailboxes.models import SigningKey
from mailboxes.statuses import KeyPurpose
from tests.support.racers import Racers


@pytest.fixture(autouse=True)
def _empty_ring(racers: Racers) -> Iterator[None]:
    # a first key is made on a connection of its own, so it outlives other tests
    SigningKey.objects.all().delete()
    forget_keys()
    yield
    forget_keys()


def test_eight_first_uses_at_once_make_one_key(racers: Racers) -> None:
    for purpose in KeyPurpose:
        keys = racers.at_once([partial(current_key, purpose)] * 8)

        assert len(set(keys)) == 1
        assert SigningKey.objects.get(purpose=purpose).kid == "0"


def test_eight_turns_at_once_leave_one_key_that_signs(racers: Racers) -> None:
    current_key(KeyPurpose.LINK)

    names = racers.at_once([partial(rotate_key, KeyPurpose.LINK)] * 8)

    assert sorted(map(str, names)) == list("12345678")
    stored = SigningKey.objects.filter(purpose=KeyPurpose.LINK)
    assert stored.count() == 9
    assert stored.get(verify_until=None).kid == "8"
