"""Canonical JSON and the hashes made from it (the page, "Idempotency fingerprint")."""

import hashlib
import json
from typing import Any


def canonical_json(value: Any) -> bytes:
    """Return the one byte form of a JSON value, as UTF-8.

    Object keys are sorted by their UTF-8 bytes at every level, no insignificant white
    space, strings with minimal escapes, numbers in shortest form, arrays in order.
    UTF-8 byte order equals code point order, which is how Python sorts strings.
    """
    return json.dumps(
        value,
        ensure_ascii=False,
        sort_keys=True,
        separators=(",", ":"),
        allow_nan=False,
    ).encode("utf-8", "surrogatepass")


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of the bytes as 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def key_hash(idempotency_key: str) -> str:
    """Return what the ledger stores of an ``Idempotency-Key``: its SHA-256, in hex."""
    return sha256_hex(idempotency_key.encode())
