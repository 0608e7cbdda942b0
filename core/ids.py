"""Identifiers: a prefix and a ULID, so that an id names its kind and sorts by time."""

import re
import threading
from datetime import datetime
from typing import Final, Literal

from ulid import LaxMonotonicPolicy, ULIDGenerator

Prefix = Literal[
    "ten", "idn", "adr", "dom", "thr", "msg", "att", "key", "evt", "aud", "req", "hld",
    "whk", "dlv", "prb", "pev", "alr", "job", "stl",
]  # fmt: skip

ID_PATTERN: Final = r"^{prefix}_[0-9A-HJKMNP-TV-Z]{{26}}$"

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

_lock = threading.Lock()
_generator = ULIDGenerator(policy=LaxMonotonicPolicy())


def new_id(prefix: Prefix) -> str:
    """Return a fresh id, e.g. ``msg_01K0…``; strictly rising within this process."""
    with _lock:
        return f"{prefix}_{_generator.generate()}"


def first_id(prefix: Prefix, at: datetime) -> str:
    """Return what sorts before each id of this kind that was made at ``at`` or later.

    The index of the ids thereby finds rows by time.
    """
    milliseconds = int(at.timestamp() * 1000)
    digits = (_ALPHABET[milliseconds >> shift & 31] for shift in range(45, -1, -5))
    return f"{prefix}_{''.join(digits)}{'0' * 16}"


def is_id(value: str, prefix: Prefix) -> bool:
    """Tell whether the value has the form of an id of this kind."""
    return re.fullmatch(ID_PATTERN.format(prefix=prefix), value) is not None


def ulid_of(identifier: str) -> str:
    """Return the ULID part of an id, in lower case, as Message-IDs use it."""
    return identifier.partition("_")[2].lower()
