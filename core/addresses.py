"""Mail addresses: the one form in which they are stored, compared and mailed to.

Form: mailboxes, section 0. Syntax: RFC 5321 section 4.1.2 (a dot-atom before the ``@``;
quoted strings and address literals are refused). Domains: IDNA 2008 (RFC 5891), because
the standard library's codec maps some names to another owner's.
"""

import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import idna
from publicsuffixlist import PublicSuffixList

from core.errors import AddressInvalid, AddressUnsupported, FieldError, listed

ADDRESS_LIMIT = 254
"""Octets of a whole address: RFC 5321 section 4.5.3.1.3, less the angle brackets."""
LOCAL_LIMIT = 64
"""Octets before the ``@``: RFC 5321 section 4.5.3.1.1."""

_RAW_LIMIT = 1000  # what is longer is not even looked at
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_ATEXT = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_DOT_ATOM = re.compile(rf"{_ATEXT}(?:\.{_ATEXT})*")


def normalize(raw: str) -> str:
    """Return the address in lower case, its domain as A-labels without a last dot.

    Raises AddressUnsupported for a local part outside ASCII, and AddressInvalid for
    whatever else is no address (``address_unsupported``, ``address_invalid``).
    """
    if len(raw) > _RAW_LIMIT or _FORBIDDEN.search(raw):
        raise AddressInvalid("an address is short, and holds no control characters")
    local, at, domain = _unwrapped(raw).rpartition("@")
    if not at or not local:
        raise AddressInvalid("an address has the form local@domain")
    address = f"{_local(local)}@{normalize_domain(domain)}"
    if len(address) > ADDRESS_LIMIT:
        raise AddressInvalid(f"an address has at most {ADDRESS_LIMIT} octets")
    return address


def normalize_at(raw: str, path: str) -> str:
    """Return the address in its one form; a refusal names its place in the request.

    Raises AddressUnsupported and AddressInvalid, as ``normalize`` does.
    """
    with placed_at(path):
        return normalize(raw)


@contextmanager
def placed_at(path: str) -> Iterator[None]:
    """Name the place of an address that is refused within."""
    try:
        yield
    except (AddressInvalid, AddressUnsupported) as refusal:
        message = f"{refusal.detail[:1].upper()}{refusal.detail[1:]}."
        errors = listed([FieldError(path, message)])
        raise type(refusal)(message, details={"errors": errors}) from None


def _unwrapped(raw: str) -> str:
    trimmed = raw.strip()
    if trimmed.startswith("<") and trimmed.endswith(">"):
        return trimmed[1:-1].strip()
    return trimmed


def _local(local: str) -> str:
    if not local.isascii():
        raise AddressUnsupported("the part before the @ must be ASCII")
    if len(local) > LOCAL_LIMIT or not _DOT_ATOM.fullmatch(local):
        raise AddressInvalid(
            f"the part before the @ must be a dot-atom of at most {LOCAL_LIMIT} octets"
        )
    return local.lower()


@lru_cache(maxsize=4096)
def normalize_domain(raw: str) -> str:
    """Return a fully qualified domain as lower-case A-labels, without the last dot.

    Raises AddressInvalid. Upper case and decomposed accents are the only spellings that
    are mapped (RFC 5895 sections 2.1 and 2.3); look-alikes of ASCII, full-width letters
    and other dots are refused, never turned into somebody's domain.
    """
    name = raw.removesuffix(".")
    if name.endswith("."):
        raise AddressInvalid("the domain ends in two dots")
    try:
        encoded = idna.encode(_lowered(name), strict=True).decode("ascii")
    except (UnicodeError, ValueError) as error:  # IDNAError is a UnicodeError
        raise AddressInvalid("the domain is not a valid domain name") from error
    labels = encoded.split(".")
    if len(labels) < 2 or labels[-1].isdecimal():
        raise AddressInvalid("the domain must be fully qualified, and is no number")
    if any(label.startswith("xn--") and not _round_trips(label) for label in labels):
        raise AddressInvalid("the domain holds a broken A-label")
    return encoded


def _lowered(domain: str) -> str:
    # Character by character: str.lower() would make a capital sigma at the end of a
    # word another letter than everywhere else, and so another domain.
    if domain.isascii():
        return domain.lower()
    return unicodedata.normalize("NFC", "".join(map(_lowered_one, domain)))


def _lowered_one(character: str) -> str:
    lowered = unicodedata.normalize("NFC", character.lower())
    if lowered.isascii() and not character.isascii():  # e.g. the Kelvin sign
        raise ValueError("a character that only looks like ASCII")
    return lowered


def _round_trips(label: str) -> bool:
    try:
        return idna.alabel(idna.ulabel(label)).decode("ascii") == label
    except UnicodeError:
        return False


def domain_of(address: str) -> str:
    """Return what follows the last ``@`` of a normalised address."""
    return address.rpartition("@")[2]


def local_of(address: str) -> str:
    """Return what stands before the last ``@`` of a normalised address."""
    return address.rpartition("@")[0]


def hint(address: str) -> str:
    """Return a form that names nobody, e.g. ``j***@example.com``."""
    return f"{local_of(address)[:1]}***@{domain_of(address)}"


def org_domain(domain: str) -> str:
    """Return the registrable domain by the public suffix list, or the domain itself.

    The list is the one in the installed package: no network.
    """
    return _suffixes().privatesuffix(domain) or domain


@lru_cache(maxsize=1)
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()
