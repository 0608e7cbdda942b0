"""Pure: header fields (RFC 5322 section 2.2), each one folded text ending in CRLF.

Values are data. Whatever text is given comes back from a parser as it was; message ids
and URIs stay literal. Callers refuse what cannot stand in a header, and a ValueError
here is the last guard.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from core.text import header_fault
from outbound.words import LEAST_WORD, WORD_LIMIT, encoded_words

LINE_LIMIT = 998
"""Octets of a line without its CRLF (RFC 5322 section 2.1.1)."""
FOLD_AT = 76
"""Characters that a line has where it can; 76 for one with an encoded word."""

_ATEXT = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_PHRASE = re.compile(rf"{_ATEXT}(?: {_ATEXT})*")
_ADDRESS = re.compile(rf"{_ATEXT}(?:\.{_ATEXT})*@[A-Za-z0-9.-]+")
_PRINTABLE = re.compile(r"[ -~]*")
_MESSAGE_ID = re.compile(r"[!-;=?-~]{1,980}")  # fits a line beside its header's name
_NAME = re.compile(r"[!-9;-~]{1,100}")


class Mailbox(NamedTuple):
    """A normalised address and the name to show for it, or none."""

    address: str
    name: str = ""


def text_field(name: str, value: str) -> str:
    """Return a field of free text for people, e.g. ``Subject``."""
    _check(name, value)
    tokens = _tokens(value)
    room = FOLD_AT - len(name) - 1
    if _is_literal(value) and all(
        len(token) <= (FOLD_AT if index else room) for index, token in enumerate(tokens)
    ):
        return _folded(name, tokens)
    return _encoded_field(name, value)


def custom_field(name: str, value: str) -> str:
    """Return a field that programs may read: literal wherever it can be."""
    _check(name, value)
    tokens = _tokens(value)
    if not _is_literal(value) or _longest(name, tokens) > LINE_LIMIT:
        return _encoded_field(name, value)
    return _folded(name, tokens)


def literal_field(name: str, value: str) -> str:
    """Return a field that is never encoded, broken at its spaces only.

    For ``List-Unsubscribe`` and its like. Raises ValueError for what would need it.
    """
    _check(name, value)
    tokens = _tokens(value)
    if not _PRINTABLE.fullmatch(value) or value != value.strip() or not value:
        raise ValueError(f"the value of {name} is not plain ASCII")
    if _longest(name, tokens) > LINE_LIMIT:
        raise ValueError(f"the value of {name} holds a word that is too long")
    return _folded(name, tokens)


def ids_field(name: str, ids: Iterable[str]) -> str:
    """Return a field of message ids, given without angle brackets."""
    for identifier in (listed := list(ids)):
        if not is_message_id(identifier):
            raise ValueError(f"{name} holds what is no message id")
    return _folded(name, [f" <{identifier}>" for identifier in listed])


def is_message_id(identifier: str) -> bool:
    """Tell whether an id, without its brackets, can be named in a header."""
    return _MESSAGE_ID.fullmatch(identifier) is not None


def addresses_field(name: str, mailboxes: Sequence[Mailbox]) -> str:
    """Return a field that lists mailboxes, e.g. ``To``."""
    tokens: list[str] = []
    for index, (address, shown) in enumerate(mailboxes):
        _check(name, shown)
        if not _ADDRESS.fullmatch(address):
            raise ValueError(f"{name} holds what is no address")
        room = WORD_LIMIT if index else FOLD_AT - len(name) - 2
        tokens += _phrase(shown, room)
        tokens.append(f" <{address}>" if shown else f" {address}")
        tokens[-1] += "," if index < len(mailboxes) - 1 else ""
    return _folded(name, tokens)


def _phrase(shown: str, room: int) -> list[str]:
    """Return a display name as atoms, as a quoted string, or as encoded words."""
    if "=?" not in shown and _PRINTABLE.fullmatch(shown):
        if not shown or _PHRASE.fullmatch(shown):
            return _tokens(shown) if shown else []
        escaped = shown.replace("\\", "\\\\").replace('"', '\\"')
        return _tokens(f'"{escaped}"')
    return [f" {word}" for word in encoded_words(shown, first=room)]


def _is_literal(value: str) -> bool:
    # "=?" would be taken for an encoded word, and blanks at an end are lost
    return (
        value != ""
        and "=?" not in value
        and value == value.strip(" ")
        and _PRINTABLE.fullmatch(value) is not None
    )


def _tokens(value: str) -> list[str]:
    """Return the words of a text, each with the blanks before it."""
    return re.findall(r" +[^ ]*", f" {value}")


def _encoded_field(name: str, value: str) -> str:
    # beside a very long name the line gets longer than 76: broken after the colon, the
    # value would come back with a blank before it
    room = max(LEAST_WORD, FOLD_AT - len(name) - 2)
    return _folded(name, [f" {word}" for word in encoded_words(value, first=room)])


def _longest(name: str, tokens: Iterable[str]) -> int:
    return len(name) + 1 + max(map(len, tokens))


def _folded(name: str, tokens: Iterable[str]) -> str:
    """Join tokens that start with their blank; the first stays beside the name."""
    lines: list[str] = []
    line = f"{name}:"
    for index, token in enumerate(tokens):
        if index and len(line) + len(token) > FOLD_AT:
            lines.append(line)
            line = token
        else:
            line += token
    return "\r\n".join([*lines, line, ""])


def _check(name: str, value: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError("no header has such a name")
    if (fault := header_fault(value)) is not None:
        raise ValueError(f"the value of {name} {fault}")
