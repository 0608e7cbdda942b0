"""Pure: what is to be said becomes the RFC 5322 bytes that leave.

Composing the same input twice gives the same bytes: the date is the submit's, the
Message-ID and the boundaries come from the message's id (architecture section 7).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime

from core.addresses import domain_of
from core.ids import is_id, ulid_of
from outbound.headers import (
    Mailbox,
    addresses_field,
    custom_field,
    ids_field,
    literal_field,
    text_field,
)
from outbound.mime import (
    Attachment,
    attachment_part,
    multipart,
    text_part,
)

__all__ = ["Attachment", "ComposeInput", "ComposedMessage", "Mailbox", "compose"]

NEVER_CUSTOM = frozenset(
    [
        "from",
        "sender",
        "reply-to",
        "to",
        "cc",
        "bcc",
        "subject",
        "date",
        "message-id",
        "in-reply-to",
        "references",
        "mime-version",
        "dkim-signature",
        "return-path",
        "received",
    ]
)
"""Headers that are not set by a name and a value, in lower case; nor is Content-*."""

LITERAL = frozenset(["list-unsubscribe", "list-unsubscribe-post"])
"""Headers whose values are never encoded: readers would not know them any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposeInput:
    """All that a message says. BCC recipients are no part of it, on purpose.

    ``message_id`` is the public id (``msg_…``); ``sent_at`` is aware. Ids in
    ``in_reply_to`` and ``references`` stand without angle brackets. Where only HTML was
    given, the caller derives ``text`` (``core.html_text``) and stores what it derived.
    """

    message_id: str
    sent_at: datetime
    from_: Mailbox
    subject: str
    to: tuple[Mailbox, ...] = ()
    cc: tuple[Mailbox, ...] = ()
    reply_to: Mailbox | None = None
    text: str | None = None
    html: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    attachments: tuple[Attachment, ...] = ()
    in_reply_to: str | None = None
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ComposedMessage:
    """The bytes, and the Message-ID in them without its angle brackets."""

    rfc_message_id: str
    mime: bytes


def compose(message: ComposeInput) -> ComposedMessage:
    """Return the message as bytes that every line of which a mail server can take.

    Lines end in CRLF and have at most 998 octets. Raises ValueError for what cannot
    stand in a message; requests are refused before it comes to that.
    """
    if not is_id(message.message_id, "msg"):
        raise ValueError("a message id has the form msg_…")
    rfc_message_id = rfc_message_id_of(message.message_id, message.from_.address)
    fields = [*_identification(message, rfc_message_id), *_custom(message)]
    head = "".join([*fields, "MIME-Version: 1.0\r\n"]).encode("ascii")
    mime = head + _content(message)
    return ComposedMessage(
        rfc_message_id, mime if mime[-2:] == b"\r\n" else mime + b"\r\n"
    )


def rfc_message_id_of(message_id: str, from_address: str) -> str:
    """Return the Message-ID that a message keeps on every retry, without brackets."""
    return f"{ulid_of(message_id)}@{domain_of(from_address)}"


def _identification(message: ComposeInput, rfc_message_id: str) -> Iterator[str]:
    yield addresses_field("From", [message.from_])
    if message.reply_to:
        yield addresses_field("Reply-To", [message.reply_to])
    if message.to:
        yield addresses_field("To", message.to)
    if message.cc:
        yield addresses_field("Cc", message.cc)
    if not message.to and not message.cc:
        yield "To: undisclosed-recipients:;\r\n"
    yield text_field("Subject", message.subject)
    yield f"Date: {_date(message.sent_at)}\r\n"
    yield ids_field("Message-ID", [rfc_message_id])
    if message.in_reply_to:
        yield ids_field("In-Reply-To", [message.in_reply_to])
    if message.references:
        yield ids_field("References", message.references)


def _date(sent_at: datetime) -> str:
    if sent_at.tzinfo is None:
        raise ValueError("the instant of a message knows its time zone")
    return format_datetime(sent_at.astimezone(UTC))


def _custom(message: ComposeInput) -> Iterator[str]:
    seen = set()
    for name, value in message.headers:
        folded = name.lower()
        if folded in NEVER_CUSTOM or folded.startswith("content-") or folded in seen:
            raise ValueError("a header is set twice, or is not set this way")
        seen.add(folded)
        write = literal_field if folded in LITERAL else custom_field
        yield write(name, value)


def _content(message: ComposeInput) -> bytes:
    files = [a for a in message.attachments if not _is_embedded(message, a)]
    body = _body(message)
    if not files:
        return body
    parts = [body, *map(attachment_part, files)]
    return multipart("mixed", _boundary(message, "m"), parts)


def _body(message: ComposeInput) -> bytes:
    if message.html is None:
        return text_part("plain", message.text or "")
    if message.text is None:
        return _html(message, message.html)
    parts = [text_part("plain", message.text), _html(message, message.html)]
    return multipart("alternative", _boundary(message, "a"), parts)


def _html(message: ComposeInput, html: str) -> bytes:
    page = text_part("html", html)
    embedded = [a for a in message.attachments if _is_embedded(message, a)]
    if not embedded:
        return page
    parts = [page, *map(attachment_part, embedded)]
    return multipart("related", _boundary(message, "r"), parts, root="text/html")


def _is_embedded(message: ComposeInput, attachment: Attachment) -> bool:
    return message.html is not None and attachment.disposition == "inline"


def _boundary(message: ComposeInput, part: str) -> str:
    return f"=_{ulid_of(message.message_id)}_{part}"
