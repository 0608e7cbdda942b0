"""Signing keys on a real database: made once, sealed, cached, turned."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.db import transaction

from core.clock import database_now
from core.elapsed import elapsed_clock
from core.sealing import Place, SealBroken, sealer
from mailboxes import keyring_services
from mailboxes.keyring import RingKey
from mailboxes.keyring_services import (
    current_key,
    forget_keys,
    rotate_key,
    verifying_key,
)
from mailboxes.models import SigningKey
from mailboxes.statuses import KeyPurpose

pytestmark = pytest.mark.django_db(transaction=True)

THREAD, LINK, CURSOR = KeyPurpose.THREAD, KeyPurpose.LINK, KeyPurpose.CURSOR


@pytest.fixture(autouse=True)
def _empty_ring(transactional_db: None) -> Iterator[None]:
    # a first key is made on a connection of its own, so it outlives other tests
    SigningKey.objects.all().delete()
    forget_keys()
    yield
    forget_keys()


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Move the process's own clock on by some seconds."""
    passed = [0.0]
    monkeypatch.setattr(
        keyring_services, "elapsed_clock", lambda: elapsed_clock() + passed[0]
    )

    def move(seconds: float) -> None:
        passed[0] += seconds

    return move


class RefusedLater(Exception):
    """What ends a request after it has signed something."""


def _and_refuse(work: Callable[[], object]) -> None:
    with transaction.atomic():
        work()
        raise RefusedLater


def secret_of(purpose: KeyPurpose, kid: str) -> bytes:
    row = SigningKey.objects.get(purpose=purpose, kid=kid)
    place = Place("signing_keys", "ciphertext", f"{purpose}:{kid}")
    return sealer().open(row.ciphertext, place=place)


def rows_of(purpose: KeyPurpose) -> list[str]:
    return list(
        SigningKey.objects.filter(purpose=purpose)
        .order_by("kid")
        .values_list("kid", flat=True)
    )


def test_the_first_use_makes_a_key_of_32_random_bytes_and_seals_it() -> None:
    key = current_key(THREAD)

    assert key.kid == "0"
    assert len(key.secret) == 32
    assert secret_of(THREAD, "0") == key.secret
    assert key.secret.hex() not in SigningKey.objects.get(kid="0").ciphertext


def test_each_purpose_has_a_key_of_its_own() -> None:
    assert len({current_key(purpose).secret for purpose in KeyPurpose}) == 3


def test_a_key_made_in_a_transaction_that_fails_stands_all_the_same() -> None:
    # Given a request that signs something and is refused afterwards
    made: list[RingKey] = []
    with pytest.raises(RefusedLater):
        _and_refuse(lambda: made.append(current_key(THREAD)))

    # Then what it signed verifies, in every process
    forget_keys()
    assert verifying_key(THREAD, "0", now=database_now()) == made[0].secret


def test_a_second_use_asks_the_database_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    current_key(THREAD)

    asked: list[KeyPurpose] = []
    monkeypatch.setattr(keyring_services, "_load", asked.append)

    assert current_key(THREAD).kid == "0"
    assert asked == []


def test_turning_the_ring_keeps_the_old_key_verifying_for_its_time() -> None:
    for purpose, hours in ((THREAD, 2160), (LINK, 168), (CURSOR, 24)):
        old = current_key(purpose)

        assert rotate_key(purpose) == "1"

        assert current_key(purpose).kid == "1"
        now = database_now()
        assert verifying_key(purpose, "0", now=now) == old.secret
        end = now + timedelta(hours=hours)
        assert verifying_key(purpose, "0", now=end - timedelta(minutes=1)) is not None
        assert verifying_key(purpose, "0", now=end) is None


def test_revoking_deletes_the_previous_key_at_once() -> None:
    current_key(THREAD)

    rotate_key(THREAD, revoke_previous=True)

    assert rows_of(THREAD) == ["1"]
    assert verifying_key(THREAD, "0", now=database_now()) is None


def test_a_ring_can_be_turned_before_it_was_ever_used() -> None:
    assert rotate_key(LINK) == "0"
    assert current_key(LINK).kid == "0"


def test_a_turn_that_is_rolled_back_leaves_the_key_in_place() -> None:
    before = current_key(THREAD)

    with pytest.raises(RefusedLater):
        _and_refuse(lambda: rotate_key(THREAD))

    assert current_key(THREAD) == before
    assert rows_of(THREAD) == ["0"]


def test_keys_whose_time_has_ended_go_with_the_next_turn(
    later: Callable[[float], None],
) -> None:
    current_key(CURSOR)
    rotate_key(CURSOR)

    later(25 * 3600)
    rotate_key(CURSOR)

    assert rows_of(CURSOR) == ["1", "2"]


def test_a_process_learns_of_a_turn_when_its_cache_ends(
    pass_time: Callable[[float], None],
) -> None:
    current_key(THREAD)
    _turn_elsewhere(THREAD)

    assert current_key(THREAD).kid == "0"
    pass_time(301)
    assert current_key(THREAD).kid == "1"


def test_an_unknown_name_is_looked_up_once_a_minute(
    pass_time: Callable[[float], None],
) -> None:
    current_key(THREAD)
    _turn_elsewhere(THREAD)
    now = database_now()

    # Given a token under the new key, it is looked up at once
    assert verifying_key(THREAD, "1", now=now) == secret_of(THREAD, "1")

    # When unknown names keep coming, nothing is asked for a minute
    _turn_elsewhere(THREAD)
    assert verifying_key(THREAD, "2", now=now) is None
    pass_time(59)
    assert verifying_key(THREAD, "2", now=now) is None
    pass_time(2)
    assert verifying_key(THREAD, "2", now=now) == secret_of(THREAD, "2")


def _turn_elsewhere(purpose: KeyPurpose) -> None:
    """Turn the ring as another process does: our cache does not hear of it."""
    kept = dict(keyring_services._cache)
    rotate_key(purpose)
    keyring_services._cache.update(kept)


def test_a_key_copied_to_another_purpose_does_not_open() -> None:
    current_key(THREAD)
    row = SigningKey.objects.get(purpose=THREAD)
    SigningKey.objects.create(purpose=LINK, kid="0", ciphertext=row.ciphertext)

    with pytest.raises(SealBroken):
        current_key(LINK)
