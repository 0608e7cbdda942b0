"""The ring of signing keys of one purpose: which signs, and which still verify.

Rules: security, section 3 ("Keyring"). Pure; rows and cache are in
``mailboxes.keyring_services``.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from core.errors import PylotaError
from mailboxes.statuses import KeyPurpose
from mailboxes.thread_tokens import ALPHABET

VERIFY_FOR: Final[Mapping[KeyPurpose, timedelta]] = {
    KeyPurpose.THREAD: timedelta(days=90),
    KeyPurpose.LINK: timedelta(days=7),
    KeyPurpose.CURSOR: timedelta(hours=24),
}
"""How long a key goes on verifying after another has taken its place."""


class KeyringFull(PylotaError):
    """Every name that a key may have is in use: the ring was turned too often."""

    code = "unavailable"
    status = 503
    retryable = True
    fix = "Wait until an old key's time has ended, then rotate again."


@dataclass(frozen=True, slots=True)
class RingKey:
    """A key of the ring; ``verify_until`` is None for the one that signs."""

    kid: str
    secret: bytes = field(repr=False)
    verify_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Ring:
    """The keys of one purpose, as they were read."""

    keys: tuple[RingKey, ...]

    @property
    def current(self) -> RingKey | None:
        """Return the key that signs; None in a deployment that never signed."""
        return next((key for key in self.keys if key.verify_until is None), None)

    def knows(self, kid: str) -> bool:
        """Tell whether a name is in the ring, whatever became of its time."""
        return any(key.kid == kid for key in self.keys)

    def verifying(self, kid: str, *, now: datetime) -> bytes | None:
        """Return the secret of a name that still counts at this instant."""
        for key in self.keys:
            if key.kid == kid and (key.verify_until is None or now < key.verify_until):
                return key.secret
        return None


def next_kid(current: str | None, stored: Set[str]) -> str:
    """Return the name of a new key: the next of the alphabet that is not stored.

    Names wrap round, so that one comes back as late as possible. Raises KeyringFull.
    """
    start = ALPHABET.index(current) + 1 if current is not None else 0
    for character in ALPHABET[start:] + ALPHABET[:start]:
        if character not in stored:
            return character
    raise KeyringFull("All names of signing keys are in use.")
