"""Identifiers: a prefix and a ULID, so that an id names its kind and sorts by time."""

import re
import threading
from typing import Final, Literal

from ulid import LaxMonotonicPolicy, ULIDGenerator

Prefix = Literal[
    "ten", "idn", "adr", "dom", "thr", "msg", "att", "key", "evt", "aud", "req", "hld",
    "whk", "dlv", "prb", "pev", "alr", "job", "stl",
]  # fmt: skip

ID_PATTERN: Final = r"^{prefix}_[0-9A-HJKMNP-TV-Z]{{26}}$"

_lock = threading.Lock()
_generator = ULIDGenerator(policy=LaxMonotonicPolicy())


def new_id(prefix: Prefix) -> str:
    """Return a fresh id, e.g. ``msg_01K0…``; strictly rising within this process."""
    with _lock:
        return f"{prefix}_{_generator.generate()}"


def is_id(value: str, prefix: Prefix) -> bool:
    """Tell whether the value has the form of an id of this kind."""
    return re.fullmatch(ID_PATTERN.format(prefix=prefix), value) is not None


def ulid_of(identifier: str) -> str:
    """Return the ULID part of an id, in lower case, as Message-IDs use it."""
    return identifier.partition("_")[2].lower()
