"""Header fields of mail that came in, as text: never more than is worth reading. Pure.

Whatever octets a field holds, reading it raises nothing. Encoded words (RFC 2047) are
read once addresses have been told apart.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from email.utils import getaddresses, parsedate_to_datetime
from typing import Final

from core.text import NAME_LIMIT
from mailboxes.recipients import Party, address_key
from mailboxes.subjects import decode_subject

FIELDS_LIMIT: Final = 2000
VALUE_LIMIT: Final = 65_536
"""Characters of one field that are read."""
PHRASE_LIMIT: Final = 16_384
"""Characters of a text in which encoded words are looked for."""
ADDRESS_LIMIT: Final = 320
"""Characters of what stands where an address should: 64 and 255 and the at sign."""

_FOLD: Final = re.compile(r"\r?\n(?=[ \t])|[\r\n]+")
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_CONTROLS: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


class Fields:
    """The fields of one header, by their names in lower case, in their order."""

    def __init__(self, items: Iterable[tuple[str, object]]) -> None:
        """Take the fields as a parser gives them, octets above 127 as surrogates."""
        self._values: dict[str, list[str]] = {}
        for count, (name, value) in enumerate(items):
            if count == FIELDS_LIMIT:
                break
            found = self._values.setdefault(name.strip().lower(), [])
            found.append(_FOLD.sub("", as_text(str(value)[:VALUE_LIMIT])).strip())

    def all(self, name: str) -> list[str]:
        """Return every value of a field."""
        return self._values.get(name, [])

    def first(self, name: str) -> str:
        """Return the first value of a field, or an empty text."""
        return (self._values.get(name) or [""])[0]

    def has(self, name: str) -> bool:
        """Tell whether the field is there, with whatever value."""
        return name in self._values


def as_text(value: str) -> str:
    """Return a raw value as text: its octets as UTF-8, what is none as U+FFFD."""
    octets = value.encode("utf-8", "surrogateescape")
    return storable(octets.decode("utf-8", "replace"))


def storable(text: str) -> str:
    """Return a text without what no row can hold: NUL and lone surrogates."""
    return _UNSTORABLE.sub("", text)


def one_line(text: str, limit: int) -> str:
    """Return a text without control characters, its blanks collapsed, cut."""
    return " ".join(_CONTROLS.sub(" ", text).split())[:limit].rstrip()


def phrase(value: str, limit: int = NAME_LIMIT) -> str:
    """Return a name or subject with its encoded words read, on one line."""
    return one_line(decode_subject(value[:PHRASE_LIMIT]), limit)


def parties(values: Sequence[str], *, limit: int) -> tuple[Party, ...]:
    """Return who is named in address fields; groups give their members.

    What holds no ``@`` names nobody. An address is in its normal form where it has one.
    """
    try:
        pairs = getaddresses([value[:VALUE_LIMIT] for value in values[:limit]])
    except Exception:  # comments nested a thousand deep, and what nobody foresaw
        return ()
    found = []
    for name, address in pairs:
        key = address_key(one_line(address, ADDRESS_LIMIT))
        if "@" in key:
            found.append(Party(key, phrase(name) or None))
        if len(found) == limit:
            break
    return tuple(found)


def instant(value: str) -> datetime | None:
    """Return the instant of a Date field in UTC; None for what is none."""
    try:
        found = parsedate_to_datetime(value[:200])
        return found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC)
    except Exception:  # a dozen kinds of error, by what is wrong
        return None
