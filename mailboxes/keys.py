"""The form of an API key, and how one is recognised (security, section 2).

``pmk_{live|test}_{lookup}_{secret}``: the lookup finds the row, and a keyed hash of the
whole string proves the secret. Only that hash is stored.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from mailboxes.statuses import TenantMode

ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
KEY_PATTERN: Final = re.compile(
    r"pmk_(?P<mode>live|test)_(?P<lookup>[0-9a-hjkmnp-tv-z]{12})_[0-9a-hjkmnp-tv-z]{52}"
)
LOOKUP_BITS: Final = 60
SECRET_BYTES: Final = 32
_DUMMY: Final = "0" * 64
NEVER: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ParsedKey:
    """A string of the right form; nothing says yet that such a key exists."""

    text: str = field(repr=False)
    mode: TenantMode
    lookup: str


@dataclass(frozen=True, slots=True)
class StoredHashes:
    """What a row knows of its secrets: at most two, the second for a while."""

    current: str = field(repr=False)
    previous: str | None = field(default=None, repr=False)
    previous_until: datetime | None = None


def parse(text: str) -> ParsedKey | None:
    """Return the parts of a key, or None if it does not have the form of one."""
    if (match := KEY_PATTERN.fullmatch(text)) is None:
        return None
    return ParsedKey(text, TenantMode(match["mode"]), match["lookup"])


def draw(mode: TenantMode) -> ParsedKey:
    """Return a new random key: 60 bits of lookup, 32 bytes of secret."""
    lookup = _digits(secrets.randbits(LOOKUP_BITS), 12)
    secret = _digits(int.from_bytes(secrets.token_bytes(SECRET_BYTES)), 52)
    return ParsedKey(f"pmk_{mode}_{lookup}_{secret}", mode, lookup)


def hash_key(pepper: bytes, text: str) -> str:
    """Return what is stored of a key: HMAC-SHA256 under the pepper, in hex."""
    return hmac.new(pepper, text.encode(), hashlib.sha256).hexdigest()


def matches(
    pepper: bytes, text: str, *, stored: StoredHashes | None, now: datetime
) -> bool:
    """Tell whether this is the secret of the row, in time that does not depend on it.

    Without a row the same work is done against a dummy, so that an unknown lookup
    cannot be told from a wrong secret.
    """
    digest = bytes.fromhex(hash_key(pepper, text))
    known = stored or StoredHashes(_DUMMY)
    is_current = hmac.compare_digest(digest, bytes.fromhex(known.current))
    is_previous = hmac.compare_digest(digest, bytes.fromhex(known.previous or _DUMMY))
    until = known.previous_until
    is_previous = is_previous and until is not None and now < until
    return stored is not None and (is_current or is_previous)


def _digits(number: int, width: int) -> str:
    drawn = []
    for _ in range(width):
        number, digit = divmod(number, 32)
        drawn.append(ALPHABET[digit])
    return "".join(reversed(drawn))
