"""What SMTP looks like on the wire: pure functions over octets and replies."""

import re
from base64 import b64encode
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import ip_address

from outbound.transports.told import starred

ENHANCED = re.compile(r"[245]\.\d{1,3}\.\d{1,3}(?= |$)")
ENVELOPE_ADDRESS = re.compile(r'(?:"[\x20-\x7e]+"|[!#-;=?-~]+)@[!#-;=?-~]+', re.ASCII)


@dataclass(frozen=True, slots=True)
class Reply:
    """One complete reply (RFC 5321 section 4.2), its text on one line."""

    code: int
    text: str

    @property
    def is_for_now(self) -> bool:
        """Say whether it refuses, and the same may be tried again (4yz)."""
        return 400 <= self.code < 500

    @property
    def is_for_good(self) -> bool:
        """Say whether it refuses for good (5yz)."""
        return self.code >= 500

    @property
    def ends_session(self) -> bool:
        """Say whether the server is about to close, whatever was asked (421)."""
        return self.code == 421

    def __str__(self) -> str:
        return f"{self.code} {self.text}".strip()

    def told(self, hidden: Collection[str] = ()) -> str:
        """Return the reply as it may be kept: ``hidden`` words starred, cut to 512."""
        return starred(str(self), hidden)


def reply_text(lines: Collection[bytes]) -> str:
    """Return a reply's text on one line, a repeated enhanced code only once."""
    texts = [line.decode("utf-8", "replace").strip() for line in lines]
    if enhanced := ENHANCED.match(texts[0]):
        rest = [text.removeprefix(enhanced[0]).strip() for text in texts[1:]]
        texts = [texts[0], *rest]
    joined = " ".join(text for text in texts if text)
    return "".join(c if c.isprintable() else "?" for c in joined)


def canonical(mime: bytes) -> bytes:
    """Return a content whose every line ends in CRLF: no bare CR or LF is left."""
    lines = re.sub(rb"\r\n|\r|\n", b"\r\n", mime)
    return lines if lines.endswith(b"\r\n") else lines + b"\r\n"


def stuffed(content: bytes) -> bytes:
    """Return the content with its leading dots doubled (RFC 5321 section 4.5.2)."""
    return re.sub(rb"(?m)^\.", b"..", content)


def ehlo_form(host: str) -> str:
    """Return a host as EHLO names it (RFC 5321 section 4.1.3: literals in brackets)."""
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return host
    return f"[IPv6:{address}]" if address.version == 6 else f"[{address}]"


def in_base64(text: str) -> str:
    """Return what AUTH sends for a text."""
    return b64encode(text.encode()).decode()


def is_envelope_address(address: str) -> bool:
    """Say whether an address can stand in a path without becoming something else."""
    return len(address) <= 320 and ENVELOPE_ADDRESS.fullmatch(address) is not None
