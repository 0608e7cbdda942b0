"""Reads composed bytes by hand: a second opinion beside the standard library's parser.

Strict where that one forgives: anything not of the expected form fails the test.
"""

import base64
import re
from email.message import EmailMessage, Message
from email.parser import BytesParser
from email.policy import compat32, default

_WORD = re.compile(r"=\?utf-8\?([qb])\?([!-~]*?)\?=")
_MAILBOX = re.compile(
    r"""\s*(?:(?P<quoted>"(?:[^"\\]|\\.)*")|(?P<plain>[^"<>,]*?))?\s*
        (?:<(?P<angled>[^<>\s]+)>|(?P<bare>[^<>\s,"]+@[^<>\s,"]+))\s*(?:,|\Z)""",
    re.VERBOSE,
)


def header_block(mime: bytes) -> list[tuple[str, str]]:
    """Return the fields above the first blank line, unfolded and still encoded."""
    block = mime.split(b"\r\n\r\n", 1)[0].decode("ascii")
    fields: list[tuple[str, str]] = []
    for line in block.split("\r\n"):
        assert line.strip(" \t"), "a line of blanks would end the header for some"
        assert "\r" not in line
        assert "\n" not in line
        if line[0] in " \t":
            name, value = fields[-1]
            fields[-1] = (name, value + line)
        else:
            name, colon, value = line.partition(":")
            assert colon
            fields.append((name, value))
    return [(name, value.removeprefix(" ")) for name, value in fields]


def decoded(value: str) -> str:
    """Return an unfolded text with its encoded words read (RFC 2047 section 6)."""
    joined = re.sub(r"(\?=)\s+(?==\?utf-8\?[qb]\?)", r"\1", value)
    return _WORD.sub(_one_word, joined)


def _one_word(found: "re.Match[str]") -> str:
    assert len(found.group()) <= 75
    kind, text = found.groups()
    if kind == "b":
        return base64.b64decode(text, validate=True).decode("utf-8")
    spaced = text.replace("_", " ").encode("ascii")
    octets = re.sub(rb"=([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]), spaced)
    return octets.decode("utf-8")  # fails for a word that ends inside a character


def mailboxes(value: str) -> list[tuple[str, str]]:
    """Return the (address, name) pairs of an unfolded address field."""
    found, position = [], 0
    while position < len(value):
        match = _MAILBOX.match(value, position)
        assert match is not None, value[position:]
        position = match.end()
        name = decoded((match["plain"] or "").strip(" "))
        if match["quoted"]:
            name = re.sub(r"\\(.)", r"\1", match["quoted"][1:-1])
            assert "=?" not in name
        found.append((match["angled"] or match["bare"], name))
    return found


def modern(mime: bytes) -> EmailMessage:
    """Return what the standard library's newer parser reads."""
    parsed = BytesParser(EmailMessage, policy=default).parsebytes(mime)
    assert isinstance(parsed, EmailMessage)
    return parsed


def classic(mime: bytes) -> "Message[str, str]":
    """Return what the standard library's older parser reads."""
    return BytesParser(policy=compat32).parsebytes(mime)
