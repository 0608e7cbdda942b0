"""The thread token: the published vectors, and nothing that can be forged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailboxes.thread_tokens import (
    ALPHABET,
    SEQ_LIMIT,
    Absent,
    Invalid,
    Valid,
    mint_token,
    split_subaddress,
    verify_token,
    with_token,
)

KEY = bytes(range(32))
IDENTITY = "idn_01ARZ3NDEKTSV4RRFFQ69G5FAV"
OTHER = "idn_01ARZ3NDEKTSV4RRFFQ69G5FAW"
VECTORS = [
    ("0", 1, "t01.d9mwsme8"),
    ("0", 115, "t03k.n0gvxh2g"),
    ("k", 32768, "tk1000.nmh03wcd"),
    ("z", 2**60 - 1, "tzzzzzzzzzzzzz.8fz238cn"),
]

seqs = st.integers(1, SEQ_LIMIT - 1)
kids = st.sampled_from(ALPHABET)


def ring(kid: str) -> bytes | None:
    return KEY


@pytest.mark.parametrize(("kid", "seq", "token"), VECTORS)
def test_the_vectors_of_the_specification(kid: str, seq: int, token: str) -> None:
    assert mint_token(seq, identity_id=IDENTITY, kid=kid, key=KEY) == token
    assert verify_token(token, identity_id=IDENTITY, key_of=ring) == Valid(seq)


@given(seqs, kids)
def test_what_was_minted_is_valid_in_any_case(seq: int, kid: str) -> None:
    token = mint_token(seq, identity_id=IDENTITY, kid=kid, key=KEY)

    assert verify_token(token.upper(), identity_id=IDENTITY, key_of=ring) == Valid(seq)


@given(seqs, kids)
def test_the_longest_own_address_stays_within_64_octets(seq: int, kid: str) -> None:
    token = mint_token(seq, identity_id=IDENTITY, kid=kid, key=KEY)
    address = with_token(f"{'a' * 40}@agents.example", token)

    assert len(address.partition("@")[0]) <= 64
    assert split_subaddress(address) == (f"{'a' * 40}@agents.example", token)


@given(seqs, st.integers(0, 40), kids)
def test_one_changed_character_is_never_valid_for_another_thread(
    seq: int, place: int, other: str
) -> None:
    token = mint_token(seq, identity_id=IDENTITY, kid="3", key=KEY)
    place = 1 + place % (len(token) - 1)
    changed = token[:place] + other + token[place + 1 :]

    verdict = verify_token(changed, identity_id=IDENTITY, key_of=ring)

    assert verdict == Valid(seq) if changed == token else not isinstance(verdict, Valid)


def test_a_token_of_another_identity_is_invalid() -> None:
    token = mint_token(7, identity_id=OTHER, kid="0", key=KEY)

    assert verify_token(token, identity_id=IDENTITY, key_of=ring) == Invalid()


def test_a_key_that_is_unknown_or_past_its_time_makes_it_invalid() -> None:
    def nobody(kid: str) -> bytes | None:
        return None

    assert (
        verify_token("t01.d9mwsme8", identity_id=IDENTITY, key_of=nobody) == Invalid()
    )


@pytest.mark.parametrize(
    "tag",
    [
        "", "invoices", "t", "t0", "t01", "t01.", "t01.d9mwsme", "t01.d9mwsme8x",
        "x01.d9mwsme8", "t01-d9mwsme8", "t01.d9mwsmei", "t0i.d9mwsme8", "t0.d9mwsme8",
        "t01.d9mwsme8\n", " t01.d9mwsme8", "t01.d9mwsmé8",
        "t0" + "1" * 13 + ".d9mwsme8",
    ],
)  # fmt: skip
def test_any_other_tag_is_just_a_tag(tag: str) -> None:
    assert verify_token(tag, identity_id=IDENTITY, key_of=ring) == Absent()


@pytest.mark.parametrize("token", ["t00.d9mwsme8", "t001.d9mwsme8", "t00000.d9mwsme8"])
def test_a_number_with_a_leading_zero_is_invalid(token: str) -> None:
    assert verify_token(token, identity_id=IDENTITY, key_of=ring) == Invalid()


def test_a_bad_number_is_refused_before_any_key_is_asked() -> None:
    asked: list[str] = []

    verify_token(
        "t001.d9mwsme8", identity_id=IDENTITY, key_of=lambda kid: asked.append(kid)
    )

    assert asked == []


@pytest.mark.parametrize("seq", [0, -1, SEQ_LIMIT])
def test_no_token_is_minted_for_a_number_out_of_range(seq: int) -> None:
    with pytest.raises(ValueError, match="thread number"):
        mint_token(seq, identity_id=IDENTITY, kid="0", key=KEY)


@pytest.mark.parametrize("kid", ["", "00", "i", "Z"])
def test_no_token_is_minted_under_a_name_that_no_key_has(kid: str) -> None:
    with pytest.raises(ValueError, match="name"):
        mint_token(1, identity_id=IDENTITY, kid=kid, key=KEY)


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("jo@example.com", ("jo@example.com", None)),
        ("jo+@example.com", ("jo@example.com", None)),
        ("jo+a+b@example.com", ("jo@example.com", "a+b")),
    ],
)
def test_the_first_plus_parts_base_and_detail(
    address: str, parts: tuple[str, str | None]
) -> None:
    assert split_subaddress(address) == parts
