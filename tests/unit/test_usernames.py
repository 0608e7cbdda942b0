"""User names: plain, not reserved, not alike."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailboxes.usernames import (
    AddressReserved,
    LocalPartTooLong,
    UsernameInvalid,
    UsernameUnsupported,
    check_local_part,
    check_username,
    fold,
)


@pytest.mark.parametrize("name", ["bookings", "Front.Desk", "a", "7-up_x", "info"])
def test_a_plain_name_is_taken_in_lower_case(name: str) -> None:
    assert check_username(name, suffix=".acme") == name.lower()


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("postmaster", AddressReserved),
        ("ADMIN", AddressReserved),
        ("adrnin", AddressReserved),
        ("n0reply", AddressReserved),
        ("nu11", AddressReserved),
        ("owner-list", AddressReserved),
        ("pm-probe", AddressReserved),
        ("news-request", AddressReserved),
        ("büro", UsernameUnsupported),
        ("", UsernameInvalid),
        (".a", UsernameInvalid),
        ("a..b", UsernameInvalid),
        ("a.", UsernameInvalid),
        ("a+b", UsernameInvalid),
        ("a" * 25, UsernameInvalid),
    ],
)
def test_a_name_that_would_mislead_or_break_is_refused(
    name: str, refusal: type[Exception]
) -> None:
    with pytest.raises(refusal):
        check_username(name, suffix=".acme")


def test_without_a_suffix_the_usual_role_names_are_reserved_too() -> None:
    with pytest.raises(AddressReserved):
        check_username("info", suffix="")


def test_a_local_part_over_40_characters_is_refused() -> None:
    with pytest.raises(LocalPartTooLong):
        check_username("a" * 24, suffix="." + "b" * 16)


def test_names_that_look_alike_fold_to_one() -> None:
    assert fold("Modern0") == fold("rnoderno")


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("а" + "dmin", AddressReserved),  # a Cyrillic letter first  # noqa: RUF001
        ("ａｄｍｉｎ", AddressReserved),  # full width  # noqa: RUF001
        ("ad\u200bmin", AddressReserved),  # with a space of no width
        ("𝐫𝐨𝐨𝐭", AddressReserved),  # mathematical bold  # noqa: RUF001
        ("boоkings", AddressReserved),  # two scripts  # noqa: RUF001
        ("שלום", AddressReserved),  # reads from the right
        ("привет", UsernameUnsupported),
        ("日本", UsernameUnsupported),
    ],
)
def test_a_name_beyond_ascii_says_whether_it_misleads(
    name: str, refusal: type[Exception]
) -> None:
    with pytest.raises(refusal):
        check_username(name, suffix=".acme")


@given(st.text(max_size=12))
def test_a_fold_folds_to_itself(name: str) -> None:
    assert fold(fold(name)) == fold(name)


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("p" * 41, UsernameInvalid),
        ("postmaster", AddressReserved),
        ("pm-x", AddressReserved),
        ("a..b", UsernameInvalid),
    ],
)
def test_a_local_part_keeps_to_the_same_rules(
    name: str, refusal: type[Exception]
) -> None:
    with pytest.raises(refusal):
        check_local_part(name)


@pytest.mark.parametrize("name", ["Info", "a" * 40])
def test_on_its_own_domain_a_tenant_has_the_role_names_and_40_characters(
    name: str,
) -> None:
    assert check_local_part(name) == name.lower()
