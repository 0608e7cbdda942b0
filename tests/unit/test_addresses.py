"""Addresses: one stored form for each mailbox, and no way into somebody else's."""

import pytest
from email_validator import EmailNotValidError, validate_email
from hypothesis import assume, given
from hypothesis import strategies as st

from core.addresses import (
    domain_of,
    hint,
    local_of,
    normalize,
    normalize_domain,
    org_domain,
)
from core.errors import AddressInvalid, AddressUnsupported
from core.text import display_name_fault, header_fault

LONGEST_DOMAIN = ".".join(["d" * 63, "e" * 63, "f" * 58, "com"])


@pytest.mark.parametrize(
    "spelling",
    [
        "ana@bücher.example",
        "Ana@BÜCHER.example",
        "ana@bu\u0308cher.example",
        "ANA@xn--bcher-kva.example",
        "ana@XN--BCHER-KVA.EXAMPLE.",
        "  <ana@bücher.example.>  ",
        "< ana@bücher.example >",
    ],
)
def test_row_47_every_spelling_of_a_recipient_is_one_address(spelling: str) -> None:
    assert normalize(spelling) == "ana@xn--bcher-kva.example"


def test_r32_a_local_part_outside_ascii_is_unsupported() -> None:
    """R32: the local part."""
    with pytest.raises(AddressUnsupported) as caught:
        normalize("dörte@example.com")

    assert (caught.value.code, caught.value.status) == ("address_unsupported", 400)


def test_r32_a_domain_of_any_script_becomes_its_a_label() -> None:
    """R32: the domain."""
    assert normalize("ana@bücher.example") == "ana@xn--bcher-kva.example"


@pytest.mark.parametrize(
    "raw",
    [
        "", "@", "a", "a@", "@b.example", "a@b", "a b@c.example", "a@b c.example",
        "a..b@c.example", ".a@c.example", "a.@c.example", '"a b"@c.example',
        "a@c..example", "a@c.example..", "a@.example", "a@-c.example", "a@c-.example",
        "a@c_d.example", "a@[192.0.2.1]", "a@192.0.2.1", "<a@c.example", "a@c.example>",
        "<<a@c.example>>", "a@b@c.example", "a,b@c.example", "Ana <a@c.example>",
        "a@c.example, b@c.example", "a(x)@c.example", "a@xn--a.example",
        "a@xn--bcher-.example", f"{'x' * 65}@c.example", f"a@{'x' * 64}.example",
        f"{'x' * 64}@{LONGEST_DOMAIN}", "x" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_address_is_invalid(raw: str) -> None:
    with pytest.raises(AddressInvalid) as caught:
        normalize(raw)

    assert (caught.value.code, caught.value.status) == ("address_invalid", 400)


@pytest.mark.parametrize("character", [*map(chr, range(32)), "\x7f", "\x85", "\u2028"])
@pytest.mark.parametrize(
    "template", ["a{}b@c.example", "a@c{}.example", "a@c.example{}"]
)
def test_r31_a_control_character_anywhere_in_an_address_is_refused(
    template: str, character: str
) -> None:
    with pytest.raises(AddressInvalid):
        normalize(template.format(character))


@pytest.mark.parametrize(
    "domain",
    [
        "\uff45xample.com",  # full-width e
        "ex\u212aample.com",  # Kelvin sign, lower case k
        "\u2100.com",  # account of
        "example\u3002com",  # ideographic full stop
        "exam\u00adple.com",  # soft hyphen
        "exam\u200bple.com",  # zero width space
        "\U0001f600.com",  # a symbol, not a letter
        "a\u2024com.com",  # one dot leader
        "xn--fa-hia\u200c.de",
    ],
)
def test_what_only_looks_like_a_domain_is_not_mapped_to_one(domain: str) -> None:
    with pytest.raises(AddressInvalid):
        normalize(f"a@{domain}")


def test_letters_that_idna_2003_merged_stay_domains_of_their_own() -> None:
    assert normalize_domain("faß.de") == "xn--fa-hia.de" != normalize_domain("fass.de")
    assert normalize_domain("βόλος.gr") == "xn--nxasmm1c.gr"
    assert normalize_domain("ΒΌΛΟΣ.gr") == normalize_domain("βόλοσ.gr")


def test_limits_are_of_octets_and_inclusive() -> None:
    local = "x" * (254 - len(LONGEST_DOMAIN) - 1)
    assert len(normalize(f"{local}@{LONGEST_DOMAIN}")) == 254
    assert normalize(f"{'y' * 64}@c.example").startswith("y" * 64)
    with pytest.raises(AddressInvalid):
        normalize(f"x{local}@{LONGEST_DOMAIN}")


def test_dots_and_sub_addresses_are_significant() -> None:
    assert normalize("First.Last+News@c.example") == "first.last+news@c.example"
    assert normalize("firstlast@c.example") != normalize("first.last@c.example")


@given(st.text(max_size=40) | st.emails())
def test_a_normalised_address_is_valid_ascii_and_stays_as_it_is(raw: str) -> None:
    try:
        address = normalize(raw)
    except (AddressInvalid, AddressUnsupported):
        return
    assert address.isascii()
    assert normalize(address) == normalize(f" <{address.upper()}.> ") == address
    assert f"{local_of(address)}@{domain_of(address)}" == address


@given(st.emails())
def test_another_validator_agrees_with_what_is_accepted(raw: str) -> None:
    try:
        checked = validate_email(raw, check_deliverability=False, allow_smtputf8=False)
    except EmailNotValidError:
        assume(False)
    assert normalize(raw) == (checked.ascii_email or "").lower()


@pytest.mark.parametrize(
    ("domain", "registrable"),
    [
        ("mail.news.example.co.uk", "example.co.uk"),
        ("example.com", "example.com"),
        ("co.uk", "co.uk"),
        ("a.b.xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("a.b.xn--55qx5d.cn", "b.xn--55qx5d.cn"),
    ],
)
def test_the_organisation_is_the_registrable_domain(
    domain: str, registrable: str
) -> None:
    assert org_domain(domain) == registrable


def test_a_hint_names_nobody() -> None:
    assert hint("jane.doe@example.com") == "j***@example.com"


@pytest.mark.parametrize(
    "value", ["a\rb", "a\nb", "a\x00b", "a\tb", "a\x7f", "\x9b", "\ud800"]
)
def test_r31_names_and_header_values_refuse_controls(value: str) -> None:
    assert header_fault(value) is not None
    assert display_name_fault(value) is not None


@pytest.mark.parametrize("value", ["", "a\u0085b", "a\u2028b", 'Ana, "x" (y)', "😀"])
def test_r31_line_separators_of_unicode_are_data(value: str) -> None:
    assert header_fault(value) is None
    assert display_name_fault(value) is None


def test_a_display_name_has_a_length() -> None:
    assert display_name_fault("é" * 256) is None
    assert display_name_fault("é" * 257) == "is longer than 256 characters"
