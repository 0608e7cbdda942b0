"""Pure: encoded words (RFC 2047) and percent-encoded parameters (RFC 2231), in UTF-8.

The standard library's own folding is not used: it encodes long message ids, drops the
quotes of long names, and on some versions lets an encoded word become a header line.
"""

import binascii
import re
import string

from core.text import cut_utf8

WORD_LIMIT = 75
"""Characters of one encoded word, its marks included (RFC 2047 section 2)."""

_Q_START, _B_START, _END = "=?utf-8?q?", "=?utf-8?b?", "?="
_FRAME = len(_Q_START) + len(_END)
_WORD = re.compile(r"=\?utf-8\?([qb])\?([!-~]*?)\?=")
_BETWEEN = re.compile(r"(\?=)[ \t]+(?==\?utf-8\?[qb]\?)")
_LETTERS = string.ascii_letters + string.digits
LEAST_WORD = _FRAME + len("=F0=9F=98=80")
"""Room in which any one character fits, however it is encoded."""


def _table(escape: str, plain: str) -> list[str]:
    octets = [f"{escape}{octet:02X}" for octet in range(256)]
    for character in plain:
        octets[ord(character)] = character
    return octets


# RFC 2047 section 5 (3): what may stand in a phrase may stand anywhere
_Q = _table("=", _LETTERS + "!*+-/")
_Q[ord(" ")] = "_"
_PERCENT = _table("%", _LETTERS + "-._")


def encoded_words(value: str, *, first: int = WORD_LIMIT) -> list[str]:
    """Return the words that together decode to the value; none splits a character.

    ``first`` is the room for the first word, at least LEAST_WORD: the header's name
    stands on the same line. Q or B, whichever is shorter.
    """
    data = value.encode("utf-8")
    quoted = "".join([_Q[octet] for octet in data])
    if len(quoted) <= -(-len(data) // 3) * 4:
        pieces = _cut_escaped(quoted, "=", first - _FRAME, WORD_LIMIT - _FRAME)
        return [f"{_Q_START}{piece}{_END}" for piece in pieces]
    return [
        f"{_B_START}{binascii.b2a_base64(piece, newline=False).decode()}{_END}"
        for piece in _cut_utf8(data, _octets(first), _octets(WORD_LIMIT))
    ]


def percent_encoded(value: str, *, room: int) -> list[str]:
    """Return the value in RFC 2231's form, cut to pieces that split no character."""
    quoted = "".join([_PERCENT[octet] for octet in value.encode("utf-8")])
    return _cut_escaped(quoted, "%", room, room)


def decoded_words(value: str) -> str:
    """Return an unfolded text with the words that ``encoded_words`` made read again.

    Blanks between two words only separate them (RFC 2047 section 6.2).
    """
    return _WORD.sub(_read, _BETWEEN.sub(r"\1", value))


def _read(found: re.Match[str]) -> str:
    kind, text = found.groups()
    if kind == "b":
        octets = binascii.a2b_base64(text)
    else:
        octets = binascii.a2b_qp(text, header=True)
    return octets.decode("utf-8")


def _octets(room: int) -> int:
    return (room - _FRAME) // 4 * 3


def _cut_utf8(data: bytes, first: int, limit: int) -> list[bytes]:
    pieces = []
    room = first
    while data:
        piece = cut_utf8(data, room)
        pieces.append(piece)
        data, room = data[len(piece) :], limit
    return pieces


def _cut_escaped(text: str, escape: str, first: int, limit: int) -> list[str]:
    pieces = []
    start, room = 0, first
    while start < len(text):
        end = _boundary(text, escape, start + room)
        pieces.append(text[start:end])
        start, room = end, limit
    return pieces


def _boundary(text: str, escape: str, end: int) -> int:
    """Return the last place up to ``end`` that is inside no escape or character."""
    while end < len(text):
        if text[end - 1] == escape:
            end -= 1
        elif text[end - 2] == escape:
            end -= 2
        elif text[end] == escape and text[end + 1] in "89AB":  # goes on a character
            end -= 3
        else:
            return end
    return len(text)
