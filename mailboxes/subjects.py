"""Subjects: without the prefixes that mail readers pile up, and with one of ours.

Rules: mailboxes, section 3.5. Pure.
"""

import base64
import binascii
import quopri
import re
import unicodedata
from typing import Final

SUBJECT_LIMIT: Final = 998
"""Characters of a subject (the page, policy step 12)."""
NO_SUBJECT: Final = "(no subject)"

_MOST_PREFIXES: Final = 10
_WORDS: Final = (
    "re|fw|fwd|aw|wg|sv|vs|vb|antw|doorst|tr|rif|enc|res|rv|odp|pd|ynt|ilt|atb"
    "|πληρ|σχετ|ответ|回复|回覆|答复|转发|轉寄"
)
_COUNT: Final = r"(?:\[\d{1,4}\]|\(\d{1,4}\))?"
_PREFIX: Final = re.compile(
    r"(?P<tag>\[[^\]]{1,40}\])?\s*"
    rf"(?:(?:{_WORDS}){_COUNT}[:\uff1a]|[ir]{_COUNT}[:\uff1a](?=\s))",
    re.IGNORECASE,
)
"""One prefix, with the tag of a list before it, which is kept.

``i`` and ``r`` count only before a colon and a blank: ``R:drive`` is a subject.
"""
_ENCODED: Final = re.compile(
    r"=\?(?P<charset>[^?*\s]+)(?:\*[^?\s]*)?\?(?P<how>[bq])\?(?P<text>[^?\s]*)\?=",
    re.IGNORECASE,
)


def normalize_subject(subject: str) -> str:
    """Return a decoded subject without reply and forward prefixes.

    Controls become blanks, runs of blanks one; nothing left means ``(no subject)``.
    """
    text = _collapsed(subject)
    for _ in range(_MOST_PREFIXES):
        found = _PREFIX.match(text)
        if found is None:
            break
        text = _collapsed(f"{found['tag'] or ''} {text[found.end() :]}")
    return text or NO_SUBJECT


def reply_subject(subject: str | None) -> str:
    """Return the subject of an answer: one ``Re:``, at most 998 characters."""
    return _prefixed("Re: ", subject)


def forward_subject(subject: str | None) -> str:
    """Return the subject of a forward: one ``Fwd:``, at most 998 characters."""
    return _prefixed("Fwd: ", subject)


def decode_subject(raw: str) -> str:
    """Return a Subject as it stood in a header with its encoded words read (RFC 2047).

    For mail that comes in, once: a stored subject is decoded, and what looks like an
    encoded word in it is text. Neighbours in one charset are joined before they are
    read: some writers cut inside a character. An unknown charset is read as UTF-8.
    """
    pieces: list[str] = []
    pending: list[tuple[str, bytes]] = []
    end = 0
    for found in _ENCODED.finditer(raw):
        between = raw[end : found.start()]
        if between.strip() or not pending:
            pieces += [*_read(pending), between]
            pending = []
        pending.append((found["charset"].lower(), _octets(found)))
        end = found.end()
    return "".join([*pieces, *_read(pending), raw[end:]])


def _prefixed(prefix: str, subject: str | None) -> str:
    return (prefix + normalize_subject(subject or ""))[:SUBJECT_LIMIT].rstrip()


def _collapsed(text: str) -> str:
    spaced = "".join(
        " " if unicodedata.category(character) == "Cc" else character
        for character in text
    )
    return " ".join(spaced.split())


def _octets(found: re.Match[str]) -> bytes:
    text = found["text"].encode("ascii", "replace")
    if found["how"].lower() == "q":
        return quopri.decodestring(text, header=True)
    try:
        return base64.b64decode(text + b"=" * (-len(text) % 4))
    except binascii.Error:
        return text


def _read(words: list[tuple[str, bytes]]) -> list[str]:
    """Return the texts of neighbouring words; those of one charset are one text."""
    joined: list[tuple[str, bytes]] = []
    for charset, octets in words:
        if joined and joined[-1][0] == charset:
            joined[-1] = (charset, joined[-1][1] + octets)
        else:
            joined.append((charset, octets))
    return [_decoded(octets, charset) for charset, octets in joined]


def _decoded(octets: bytes, charset: str) -> str:
    try:
        return octets.decode(charset, "replace")
    except (LookupError, UnicodeError):
        return octets.decode("utf-8", "replace")
