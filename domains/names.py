"""Domain names in their one stored form (pure)."""

import re
from typing import Final

import idna

_LABELS: Final = re.compile(
    r"(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]"
)


def normal_name(name: str) -> str:
    """Return a domain name as stored: A-labels, lower case, no dot at the end.

    IDNA 2008. Raises ValueError if it is no host name of two labels or more.
    """
    try:
        ascii_name = idna.encode(name.strip().rstrip("."), uts46=True).decode().lower()
    except idna.IDNAError:
        ascii_name = ""
    if not _LABELS.fullmatch(ascii_name):
        raise ValueError(f"{name!r} is not a domain name")
    return ascii_name
