"""The form of API keys, and their comparison."""

import pytest

from mailboxes import keys
from mailboxes.statuses import TenantMode

PEPPER = bytes(32)
LOOKUP, SECRET = "0" * 12, "z" * 52


@pytest.mark.parametrize("mode", ["live", "test"])
def test_a_key_of_the_documented_form_is_parsed(mode: str) -> None:
    parsed = keys.parse(f"pmk_{mode}_{LOOKUP}_{SECRET}")

    assert parsed is not None
    assert (parsed.mode, parsed.lookup) == (mode, LOOKUP)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pmk_live",
        f"pmk_prod_{LOOKUP}_{SECRET}",
        f"PMK_live_{LOOKUP}_{SECRET}",
        f"pmk_live_{LOOKUP[1:]}_{SECRET}",
        f"pmk_live_{LOOKUP}_{SECRET}0",
        f"pmk_live_{LOOKUP}_{SECRET}\n",
        f" pmk_live_{LOOKUP}_{SECRET}",
        *(f"pmk_live_{LOOKUP[1:]}{letter}_{SECRET}" for letter in "iloUuA-é٣"),
    ],
)
def test_anything_else_is_no_key(text: str) -> None:
    assert keys.parse(text) is None


def test_a_drawn_key_parses_and_is_never_drawn_twice() -> None:
    drawn = {keys.draw(TenantMode.LIVE).text for _ in range(200)}

    assert len(drawn) == 200
    assert all(keys.parse(text) is not None for text in drawn)


def test_the_stored_hash_is_a_keyed_one_of_the_whole_string() -> None:
    text = f"pmk_live_{LOOKUP}_{SECRET}"

    assert keys.hash_key(PEPPER, text) == (
        "aa66b32834eaac00d0bfcc56565eb2c558226147c59224d0ab0ebf048572fb53"
    )
    assert keys.hash_key(b"\1" * 32, text) != keys.hash_key(PEPPER, text)


def test_both_secrets_match_and_no_other_does() -> None:
    new, old, other = (keys.draw(TenantMode.LIVE).text for _ in range(3))
    hashes = {
        "current": keys.hash_key(PEPPER, new),
        "previous": keys.hash_key(PEPPER, old),
    }

    assert keys.matches(PEPPER, new, **hashes)
    assert keys.matches(PEPPER, old, **hashes)
    assert not keys.matches(PEPPER, other, **hashes)
    assert not keys.matches(PEPPER, old, **{**hashes, "previous": keys.NOBODY})


def test_a_key_is_not_shown_by_repr() -> None:
    drawn = keys.draw(TenantMode.TEST)

    assert drawn.text not in repr(drawn)
