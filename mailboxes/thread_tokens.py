"""The thread token in a Reply-To: it files an answer, and authorises nothing.

``t{K}{S}.{M}`` as the detail of a sub-address (mailboxes, section 3.1): K names the key
of the ring, S is the thread's number, M the first 40 bits of a MAC over both and the
identity. Pure.
"""

import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32, in lower case: also the names of the ring's keys."""
SEQ_LIMIT: Final = 2**60
"""Thread numbers are below this: twelve characters of the alphabet."""

_FORM: Final = re.compile(
    rf"t([{ALPHABET}])([{ALPHABET}]{{1,12}})\.([{ALPHABET}]{{8}})"
)
_VALUE: Final = {character: value for value, character in enumerate(ALPHABET)}
_DOMAIN: Final = b"pm-thr\x01"
_MAC_CHARACTERS: Final = 8


@dataclass(frozen=True, slots=True)
class Absent:
    """The detail is no token but a tag of somebody's own."""


@dataclass(frozen=True, slots=True)
class Invalid:
    """It looks like a token, and is not one of this identity's."""


@dataclass(frozen=True, slots=True)
class Valid:
    """A token that we made: the number of the thread that it names."""

    seq: int


Verdict = Absent | Invalid | Valid


def mint_token(seq: int, *, identity_id: str, kid: str, key: bytes) -> str:
    """Return the token of a thread, at most 23 characters.

    Raises ValueError for a number outside 1 to 2^60 - 1, or a name that no key has.
    """
    if not 0 < seq < SEQ_LIMIT:
        raise ValueError("a thread number is positive and below 2^60")
    if len(kid) != 1 or kid not in ALPHABET:
        raise ValueError("a key's name is one character of the alphabet")
    return f"t{kid}{_base32(seq)}.{_mac(seq, identity_id, kid, key)}"


def verify_token(
    detail: str, *, identity_id: str, key_of: Callable[[str], bytes | None]
) -> Verdict:
    """Judge the detail of an envelope recipient, never of a header's.

    ``key_of`` gives the key of a name, or None for one unknown or past its time. The
    MAC is compared in constant time.
    """
    found = _FORM.fullmatch(detail.lower())
    if found is None:
        return Absent()
    kid, number, mac = found.groups()
    seq = _number(number)
    if number[0] == "0" or seq >= SEQ_LIMIT:
        return Invalid()
    key = key_of(kid)
    if key is None or not hmac.compare_digest(_mac(seq, identity_id, kid, key), mac):
        return Invalid()
    return Valid(seq)


def with_token(address: str, token: str) -> str:
    """Return the address that brings answers back to a thread: ``local+token@domain``.

    The local part stays within 64 octets: an own one has at most 40.
    """
    local, _, domain = address.rpartition("@")
    return f"{local}+{token}@{domain}"


def split_subaddress(address: str) -> tuple[str, str | None]:
    """Return an address without its detail, and the detail, None where there is none.

    The first ``+`` of the local part parts them; an empty detail counts as none.
    """
    local, _, domain = address.rpartition("@")
    base, _, detail = local.partition("+")
    return f"{base}@{domain}", detail or None


def _mac(seq: int, identity_id: str, kid: str, key: bytes) -> str:
    said = _DOMAIN + kid.encode() + identity_id.encode() + seq.to_bytes(8, "big")
    digest = hmac.new(key, said, hashlib.sha256).digest()
    return _base32(int.from_bytes(digest[:5], "big")).rjust(_MAC_CHARACTERS, "0")


def _base32(number: int) -> str:
    """Return a number in the alphabet, most significant character first."""
    written = ""
    while number or not written:
        number, rest = divmod(number, 32)
        written = ALPHABET[rest] + written
    return written


def _number(written: str) -> int:
    value = 0
    for character in written:
        value = value * 32 + _VALUE[character]
    return value
