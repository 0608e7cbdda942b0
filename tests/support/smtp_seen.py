"""What the faulty SMTP server keeps of a connection, and of a mail."""

import re
from dataclasses import dataclass, field
from typing import Any

MESSAGE_ID = re.compile(rb"^message-id:\s*(\S+)", re.IGNORECASE | re.MULTILINE)


@dataclass
class Mail:
    """One mail whose final dot was read: envelope and content."""

    connection: int
    sender: str
    parameters: str
    recipients: list[str]
    raw: bytes
    """As on the wire, dots stuffed, without the final dot's line."""

    @property
    def content(self) -> bytes:
        """Return the content, dots unstuffed."""
        return re.sub(rb"(?m)^\.", b"", self.raw)

    @property
    def message_id(self) -> str:
        """Return the Message-ID as written, angle brackets included."""
        found = MESSAGE_ID.search(self.content)
        return found[1].decode() if found else ""


@dataclass
class Connection:
    """What one client did: every octet, and every command with the state of TLS."""

    number: int
    peer: tuple[str, int]
    plan: dict[str, Any]
    clear: bytearray = field(default_factory=bytearray)
    secure: bytearray = field(default_factory=bytearray)
    commands: list[tuple[str, bool]] = field(default_factory=list)
    logins: list[tuple[str, str]] = field(default_factory=list)
    ended: float | None = None

    @property
    def verbs(self) -> list[str]:
        """Return the commands' first words, upper case, in order."""
        return [line.split(" ", 1)[0].upper() for line, _ in self.commands]


class Gone(Exception):
    """This connection is over."""
