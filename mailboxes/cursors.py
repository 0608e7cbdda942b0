"""Pure: the cursor of a list, as a signed text (REST contract, section 1.3).

``c_`` and base64url of: one character that names the key, the payload as JSON, and the
first 16 bytes of HMAC-SHA256(key, ``pm-list-cursor-v1`` NUL + what comes before).
"""

import base64
import binascii
import hmac
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from core.errors import CursorExpired, InvalidRequest
from mailboxes.keyring import RingKey

PREFIX: Final = "c_"
DOMAIN: Final = b"pm-list-cursor-v1\0"
VERSION: Final = 1
MAC_BYTES: Final = 16
LIFE: Final = timedelta(hours=24)
LONGEST: Final = 2048

FindKey = Callable[[str], bytes | None]


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page ended: the list it belongs to, and its last row's ordering values.

    ``binding`` is a hash of the list's path, its filters and the calling key.
    """

    operation: str
    binding: str
    keyset: Sequence[Any]
    issued_at: datetime


def write_cursor(cursor: Cursor, *, key: RingKey) -> str:
    """Return the signed text of a cursor."""
    payload = [
        VERSION,
        cursor.operation,
        cursor.binding,
        list(cursor.keyset),
        int(cursor.issued_at.timestamp()),
    ]
    signed = key.kid.encode() + json.dumps(payload, separators=(",", ":")).encode()
    whole = signed + _mac(key.secret, signed)
    return PREFIX + base64.urlsafe_b64encode(whole).decode().rstrip("=")


def read_cursor(
    text: str, *, operation: str, binding: str, find_key: FindKey, now: datetime
) -> Sequence[Any]:
    """Return the ordering values of the row that the page before ended with.

    Raises InvalidRequest at ``cursor`` for a text that is not ours or belongs to
    another list, filter or key, and CursorExpired after 24 hours.
    """
    version, named, bound, keyset, issued = _opened(text, find_key)
    if (version, named, bound) != (VERSION, operation, binding):
        raise InvalidRequest.at(
            "cursor", "It belongs to another list, filter or API key."
        )
    if now.timestamp() - issued > LIFE.total_seconds():
        raise CursorExpired("The cursor is more than 24 hours old.")
    return list(keyset)


def _opened(text: str, find_key: FindKey) -> list[Any]:
    refusal = InvalidRequest.at("cursor", "This is no cursor of ours.")
    whole = _decoded(text)
    signed, mac = whole[:-MAC_BYTES], whole[-MAC_BYTES:]
    secret = find_key(signed[:1].decode("ascii", "replace")) if signed else None
    if secret is None or not hmac.compare_digest(mac, _mac(secret, signed)):
        raise refusal
    payload: list[Any] = json.loads(signed[1:])  # ours: the MAC says so
    return payload


def _decoded(text: str) -> bytes:
    """Return the bytes of a cursor; empty for what is no spelling of one."""
    body = text.removeprefix(PREFIX)
    if not text.startswith(PREFIX) or not body.isascii() or len(text) > LONGEST:
        return b""
    try:
        whole = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
    except (binascii.Error, ValueError):
        return b""
    canonical = base64.urlsafe_b64encode(whole).decode().rstrip("=")
    return whole if canonical == body else b""


def _mac(secret: bytes, signed: bytes) -> bytes:
    return hmac.digest(secret, DOMAIN + signed, sha256)[:MAC_BYTES]
