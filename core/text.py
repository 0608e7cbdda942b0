"""What a text may hold when it stands in a header, an address or a name."""

import re

NAME_LIMIT = 256
"""Characters of a display name (mailboxes, section 1.2)."""

# U+0085, U+2028 and U+2029 are data, although some libraries break lines at them.
_REFUSED = re.compile("[\x00-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
PLAIN_PATTERN = r"^[^\x00-\x1f\x7f-\x84\x86-\x9f]*$"
"""The same for the API's description; JSON holds no half of a surrogate pair."""


def header_fault(value: str) -> str | None:
    """Say why a value cannot stand in a header, or return None if it can.

    Control characters (CR, LF, NUL and tab among them) would end or hide a header; a
    lone surrogate has no UTF-8 form. Everything else is data (architecture section 7).
    """
    found = _REFUSED.search(value)
    if found is None:
        return None
    character = found.group()
    if character >= "\ud800":
        return f"holds a lone surrogate at character {found.start()}"
    return f"holds the control character U+{ord(character):04X} at {found.start()}"


def display_name_fault(name: str) -> str | None:
    """Say why a text cannot be a display name, or return None if it can."""
    if len(name) > NAME_LIMIT:
        return f"is longer than {NAME_LIMIT} characters"
    return header_fault(name)


def cut_utf8(data: bytes, limit: int) -> bytes:
    """Return as much of a UTF-8 text as fits, cut between two characters."""
    if len(data) <= limit:
        return data
    while limit and data[limit] & 0xC0 == 0x80:
        limit -= 1
    return data[:limit]
