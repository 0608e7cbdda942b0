"""The form of an API key, and how one is recognised (security, section 2).

``pmk_{live|test}_{lookup}_{secret}``: the lookup finds the row, and a keyed hash of the
whole string proves the secret. Only that hash is stored.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from typing import Final

from mailboxes.statuses import TenantMode

ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
KEY_PATTERN: Final = re.compile(
    r"pmk_(?P<mode>live|test)_(?P<lookup>[0-9a-hjkmnp-tv-z]{12})_[0-9a-hjkmnp-tv-z]{52}"
)
LOOKUP_BITS: Final = 60
SECRET_BYTES: Final = 32
NOBODY: Final = "0" * 64
"""What stands for a hash that is not there: no secret is known to have it."""


@dataclass(frozen=True, slots=True)
class ParsedKey:
    """A string of the right form; nothing says yet that such a key exists."""

    text: str = field(repr=False)
    mode: TenantMode
    lookup: str


def parse(text: str) -> ParsedKey | None:
    """Return the parts of a key, or None if it does not have the form of one."""
    if (match := KEY_PATTERN.fullmatch(text)) is None:
        return None
    return ParsedKey(text, TenantMode(match["mode"]), match["lookup"])


def draw(mode: TenantMode, *, lookup: str | None = None) -> ParsedKey:
    """Return a new random key: 60 bits of lookup, 32 bytes of secret.

    A key that is rotated keeps its ``lookup``.
    """
    lookup = lookup or _digits(secrets.randbits(LOOKUP_BITS), 12)
    secret = _digits(int.from_bytes(secrets.token_bytes(SECRET_BYTES)), 52)
    return ParsedKey(f"pmk_{mode}_{lookup}_{secret}", mode, lookup)


def hash_key(pepper: bytes, text: str) -> str:
    """Return what is stored of a key: HMAC-SHA256 under the pepper, in hex."""
    return hmac.new(pepper, text.encode(), hashlib.sha256).hexdigest()


def matches(pepper: bytes, text: str, *, current: str, previous: str) -> bool:
    """Tell whether this is one of two secrets, in time that does not depend on it.

    One MAC and two comparisons, always: a hash that is not there is ``NOBODY``, so that
    an unknown lookup cannot be told from a wrong secret.
    """
    digest = bytes.fromhex(hash_key(pepper, text))
    is_current = hmac.compare_digest(digest, bytes.fromhex(current))
    is_previous = hmac.compare_digest(digest, bytes.fromhex(previous))
    return is_current or is_previous


def _digits(number: int, width: int) -> str:
    drawn = []
    for _ in range(width):
        number, digit = divmod(number, 32)
        drawn.append(ALPHABET[digit])
    return "".join(reversed(drawn))
