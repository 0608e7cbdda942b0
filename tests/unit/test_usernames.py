"""User names: plain, not reserved, not alike."""

import pytest

from mailboxes.usernames import (
    AddressReserved,
    LocalPartTooLong,
    UsernameInvalid,
    UsernameUnsupported,
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
