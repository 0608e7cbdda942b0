"""The ring of signing keys: who signs, who still verifies, what the next is called."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailboxes.keyring import VERIFY_FOR, KeyringFull, Ring, RingKey, next_kid
from mailboxes.statuses import KeyPurpose
from mailboxes.thread_tokens import ALPHABET

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
RING = Ring(
    (
        RingKey("0", b"old", NOW),
        RingKey("1", b"earlier", NOW + timedelta(seconds=1)),
        RingKey("2", b"current"),
    )
)


def test_the_key_without_an_end_signs() -> None:
    assert RING.current == RingKey("2", b"current")
    assert Ring(()).current is None


def test_a_key_verifies_until_its_time_ends() -> None:
    assert RING.verifying("2", now=NOW) == b"current"
    assert RING.verifying("1", now=NOW) == b"earlier"
    assert RING.verifying("0", now=NOW) is None
    assert RING.verifying("3", now=NOW) is None


def test_a_name_is_known_even_when_its_time_has_ended() -> None:
    assert RING.knows("0")
    assert not RING.knows("3")


def test_a_secret_is_never_shown() -> None:
    assert "current" not in repr(RING)


@pytest.mark.parametrize(
    ("purpose", "hours"), [("thread", 2160), ("link", 168), ("cursor", 24)]
)
def test_how_long_an_old_key_verifies(purpose: str, hours: int) -> None:
    assert VERIFY_FOR[KeyPurpose(purpose)] == timedelta(hours=hours)


def test_the_first_key_is_called_0_and_names_follow_the_alphabet() -> None:
    assert next_kid(None, frozenset()) == "0"
    assert next_kid("0", {"0"}) == "1"
    assert next_kid("9", {"9"}) == "a"
    assert next_kid("h", {"h", "j"}) == "k"
    assert next_kid("z", {"z"}) == "0"
    assert next_kid("z", {"z", "0", "1"}) == "2"


def test_a_ring_with_every_name_in_use_takes_no_more() -> None:
    with pytest.raises(KeyringFull):
        next_kid("5", frozenset(ALPHABET))


@given(st.sampled_from(ALPHABET), st.sets(st.sampled_from(ALPHABET), max_size=31))
def test_a_new_name_is_never_one_that_is_stored(current: str, stored: set[str]) -> None:
    assert next_kid(current, stored) not in stored
