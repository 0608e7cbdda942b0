"""The ``Idempotency-Key`` of a request (REST contract, section 1.5)."""

import re
from typing import Final

from core.errors import IdempotencyKeyRequired, InvalidIdempotencyKey

HEADER: Final = "HTTP_IDEMPOTENCY_KEY"
KEY_PATTERN: Final = re.compile(r"[\x20-\x7E]{1,255}")


def required_key(header: str | None) -> str:
    """Return the key, or raise IdempotencyKeyRequired or InvalidIdempotencyKey.

    Two header lines arrive joined by a comma, which a key may hold: a key of its own.
    """
    if header is None:
        raise IdempotencyKeyRequired("The header Idempotency-Key is missing.")
    if KEY_PATTERN.fullmatch(header) is None:
        raise InvalidIdempotencyKey("The Idempotency-Key has not the documented form.")
    return header


def optional_key(header: str | None) -> str | None:
    """Return the key where none is needed; raises InvalidIdempotencyKey."""
    return None if header is None else required_key(header)
