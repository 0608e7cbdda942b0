"""Sealed values: AES-256-GCM envelopes bound to the column and row they stand in.

``pm1.{kid}.{nonce}.{ciphertext}`` with associated data ``pm1|table|column|row id``, so
a value that is copied elsewhere does not open (security, section 3).
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

VERSION = "pm1"


class SealBroken(Exception):
    """The value does not open: another key, another place, or changed bytes."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sealed value stands."""

    table: str
    column: str
    row_id: str

    def associated_data(self) -> bytes:
        """Return what binds a value to this place."""
        return f"{VERSION}|{self.table}|{self.column}|{self.row_id}".encode()


def key_id(master_key: bytes) -> str:
    """Return the name of a master key: the first 8 bytes of its SHA-256, in hex."""
    return hashlib.sha256(master_key).digest()[:8].hex()


class Sealer:
    """Seals with the active master key, opens with whichever key the value names."""

    def __init__(self, keys: Mapping[str, bytes], *, active: str) -> None:
        """Take the master keys by slot (32 bytes each) and the slot that seals."""
        self._by_id = {key_id(key): key for key in keys.values()}
        self._active = keys[active]

    @property
    def key_ids(self) -> list[str]:
        """Return the names of the keys that this opens with."""
        return list(self._by_id)

    def seal(self, plaintext: bytes, *, place: Place) -> str:
        """Return the envelope of a plaintext for one place."""
        nonce = secrets.token_bytes(12)
        sealed = AESGCM(self._active).encrypt(nonce, plaintext, place.associated_data())
        return ".".join(
            (VERSION, key_id(self._active), _encode(nonce), _encode(sealed))
        )

    def open(self, envelope: str, *, place: Place) -> bytes:
        """Return the plaintext; raises SealBroken if this is not the value's place."""
        try:
            version, kid, nonce, sealed = envelope.split(".")
            if version != VERSION:
                raise SealBroken(version)
            return AESGCM(self._by_id[kid]).decrypt(
                _decode(nonce), _decode(sealed), place.associated_data()
            )
        except (ValueError, KeyError, InvalidTag) as error:
            raise SealBroken(place.table) from error


def sealer() -> Sealer:
    """Return the sealer of this deployment's master keys, as the settings name them.

    Raises ImproperlyConfigured if the active slot is empty or both hold one key.
    """
    return sealer_of(
        settings.PM_MASTER_KEY, settings.PM_MASTER_KEY_B, settings.PM_MASTER_KEY_ACTIVE
    )


@cache
def sealer_of(slot_a: bytes, slot_b: bytes, active: str) -> Sealer:
    """Return the sealer of two slots' keys; an empty slot is no key.

    Raises ImproperlyConfigured, naming the variable.
    """
    keys = {slot: key for slot, key in (("a", slot_a), ("b", slot_b)) if key}
    if active not in keys:
        raise ImproperlyConfigured(
            f"config_invalid: PM_MASTER_KEY_ACTIVE names the empty slot {active}."
        )
    if slot_a == slot_b:
        raise ImproperlyConfigured(
            "config_invalid: PM_MASTER_KEY_B is the same key as PM_MASTER_KEY."
        )
    return Sealer(keys, active=active)


def keyed_hash(key: bytes, value: str) -> str:
    """Return HMAC-SHA256 of a text, in hex: the form in which addresses are matched."""
    return hmac.new(key, value.encode(), hashlib.sha256).hexdigest()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
