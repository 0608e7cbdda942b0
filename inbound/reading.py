"""What is kept of a message's bodies: cut, without quotations, and safe to show.

HTML is made safe in a process of its own, so this is done before any lock.
"""

from dataclasses import dataclass

from core.sanitized import Sanitized
from core.sanitizing import TooCostly, sanitize_apart
from core.text import cut_utf8
from inbound.parse import ParsedMail
from inbound.quoting import extracted_text

TEXT_LIMIT, EXTRACTED_LIMIT = 512 * 1024, 256 * 1024
"""Octets of a text that its row keeps, and that the API shows."""
SNIPPET = 240
NOTHING = Sanitized("", has_hidden_text=False)
LEFT_OUT = Sanitized("", has_hidden_text=False, is_truncated=True)
"""HTML that costs more than any mail is worth: text is shown instead."""


@dataclass(frozen=True, slots=True)
class Bodies:
    """The bodies of a message as its row keeps them."""

    text: str | None
    html: str | None
    extracted_text: str
    snippet: str
    has_hidden_text: bool
    is_truncated: bool


def bodies_of(mail: ParsedMail) -> Bodies:
    """Return the bodies of a message. Raises Unavailable on a machine too busy."""
    safe = _sanitized(mail.html)
    whole = mail.text
    if whole is None and mail.html is not None:
        from core.html_text import text_from_html  # its libraries are slow to load

        whole = text_from_html(mail.html)
    text = _cut(whole or "", TEXT_LIMIT)
    said = extracted_text(text)
    extracted = _cut(said, EXTRACTED_LIMIT)
    return Bodies(
        text=text if whole is not None else None,
        html=safe.html or None,
        extracted_text=extracted,
        snippet=" ".join(extracted[: 4 * SNIPPET].split())[:SNIPPET],
        has_hidden_text=safe.has_hidden_text,
        is_truncated=safe.is_truncated or text != (whole or "") or extracted != said,
    )


def _sanitized(html: str | None) -> Sanitized:
    if html is None:
        return NOTHING
    try:
        return sanitize_apart(html)
    except TooCostly:
        return LEFT_OUT


def _cut(text: str, limit: int) -> str:
    return cut_utf8(text.encode(), limit).decode()
