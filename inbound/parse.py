"""The parts of a message that came in: bounded, and never an error. Pure.

Mailboxes, section 4.3, "Parsing". What goes beyond a bound, or cannot be read, leaves
the rest in place and marks the mail as degraded; nothing is dropped for its form.
"""

import email
import email.policy
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from email.generator import BytesGenerator
from email.message import EmailMessage
from io import BytesIO
from typing import Any, Final, cast

from core.filenames import clean_filename
from inbound.headers import Fields, instant, one_line, parties, phrase, storable
from mailboxes.recipients import Party
from mailboxes.subjects import SUBJECT_LIMIT
from mailboxes.threading import message_ids_in, normalize_message_id

DEPTH_LIMIT: Final = 32
PARTS_LIMIT: Final = 500
CONTAINERS_LIMIT: Final = 200
"""Multiparts and nested messages of a mail whose structure is read at all.

The library takes a frame, and a look at each line, for each level.
"""
FIELD_LIMIT: Final = 2000
"""Characters of a field that the library reads; it takes quadratic time."""
PARTIES_LIMIT: Final = 200
REPLY_TO_LIMIT: Final = 10
BODY_LIMIT: Final = 8 * 2**20
"""Octets of a body that are read."""

_CONTAINER: Final = re.compile(
    rb"^content-type[ \t]*:\s*(?:multipart|message)/", re.IGNORECASE | re.MULTILINE
)
_HEAD_END: Final = re.compile(rb"\r?\n\r?\n")
_NOT_FOR_TEXT: Final = re.compile(r"(?i)idna|punycode|.*unicode[-_]?escape|undefined")
"""Codecs of Python that are no charsets: slow, or good for anything but mail."""
_ARMOUR: Final = "-----BEGIN PGP MESSAGE-----"
_ENCRYPTED: Final = frozenset({"multipart/encrypted", "application/pkcs7-mime"})
_OPAQUE: Final = "application/octet-stream"
_AS_IS: Final = email.policy.compat32.clone(linesep="\r\n")


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """A part that is a file; ``index`` is its place among all parts."""

    index: int
    filename: str | None
    content_type: str
    disposition: str | None
    content_id: str | None
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedMail:
    """What a message says, as data; ``html`` is not yet safe to show."""

    fields: Fields
    message_id: str | None
    in_reply_to: tuple[str, ...]
    references: tuple[str, ...]
    senders: tuple[Party, ...]
    reply_to: tuple[Party, ...]
    to: tuple[Party, ...]
    cc: tuple[Party, ...]
    subject: str
    date: datetime | None
    report_type: str
    text: str | None = field(repr=False)
    html: str | None = field(repr=False)
    files: tuple[ParsedFile, ...] = field(repr=False)
    has_calendar: bool
    is_degraded: bool
    is_encrypted: bool

    @property
    def sender(self) -> Party | None:
        """Return the first that From names."""
        return self.senders[0] if self.senders else None

    @property
    def named(self) -> tuple[Party, ...]:
        """Return whom To and Cc name, in their order."""
        return (*self.to, *self.cc)


class _Lenient(email.policy.EmailPolicy):
    """The library's policy, but for fields that its own reader breaks on."""

    def header_fetch_parse(self, name: str, value: str) -> str:
        """Return the field as it stands, cut, when it cannot be read."""
        if len(value) <= FIELD_LIMIT:
            with suppress(Exception):  # of any kind: the reader is known for them
                return str(super().header_fetch_parse(name, value))
        return storable(str(value))[:FIELD_LIMIT]


_POLICY: Final = cast("email.policy.EmailPolicy[EmailMessage]", _Lenient())


@dataclass(slots=True)
class _Found:
    """The parts of a mail, as they are met."""

    texts: list[str] = field(default_factory=list)
    pages: list[str] = field(default_factory=list)
    files: list[ParsedFile] = field(default_factory=list)
    has_calendar: bool = False
    is_degraded: bool = False


def parse(raw: bytes) -> ParsedMail:
    """Return what a message says; any octets are a message."""
    root, is_whole = _tree(raw)
    fields = Fields(root.raw_items())
    found = _Found(is_degraded=not is_whole)
    for index, (part, is_container) in enumerate(_leaves(root, found)):
        _sort(found, part, index, is_container=is_container)
    is_encrypted = _is_encrypted(root, found)
    return ParsedMail(
        fields=fields,
        message_id=normalize_message_id(fields.first("message-id")),
        in_reply_to=tuple(message_ids_in(fields.first("in-reply-to"))),
        references=tuple(message_ids_in(fields.first("references"))),
        senders=parties(fields.all("from"), limit=REPLY_TO_LIMIT),
        reply_to=parties(fields.all("reply-to"), limit=REPLY_TO_LIMIT),
        to=parties(fields.all("to"), limit=PARTIES_LIMIT),
        cc=parties(fields.all("cc"), limit=PARTIES_LIMIT),
        subject=phrase(fields.first("subject"), SUBJECT_LIMIT),
        date=instant(fields.first("date")),
        report_type=_parameter(root, "report-type"),
        text=found.texts[0] if found.texts and not is_encrypted else None,
        html=found.pages[0] if found.pages and not is_encrypted else None,
        files=tuple(found.files),
        has_calendar=found.has_calendar,
        is_degraded=found.is_degraded,
        is_encrypted=is_encrypted,
    )


def _tree(raw: bytes) -> tuple[EmailMessage, bool]:
    """Return the parsed message, and whether its structure could be read."""
    if len(_CONTAINER.findall(raw)) <= CONTAINERS_LIMIT:
        with suppress(Exception):
            return email.message_from_bytes(raw, policy=_POLICY), True
    end = _HEAD_END.search(raw)
    head, rest = (raw[: end.start()], raw[end.end() :]) if end else (raw, b"")
    kept = [b"X-Unread: 1"]
    kept += [
        line for line in _unfolded(head) if not line.lower().startswith(b"content-")
    ]
    plain = b"\r\n".join([*kept, b"", rest[:BODY_LIMIT]])
    return email.message_from_bytes(plain, policy=_POLICY), False


def _unfolded(head: bytes) -> list[bytes]:
    return re.sub(rb"\r?\n[ \t]+", b" ", head).splitlines()


def _leaves(root: EmailMessage, found: _Found) -> Iterator[tuple[EmailMessage, bool]]:
    """Yield the parts that hold something, and whether each is a container unread."""
    waiting: list[tuple[EmailMessage, int]] = [(root, 1)]
    seen = 0
    while waiting:
        part, depth = waiting.pop()
        seen += 1
        if seen > PARTS_LIMIT:
            found.is_degraded = True
            return
        inside = part.get_payload()
        if not isinstance(inside, list) or _type_of(part).startswith("message/"):
            yield part, False
        elif depth >= DEPTH_LIMIT:
            found.is_degraded = True
            yield part, True
        else:
            waiting += [(child, depth + 1) for child in reversed(inside)]


def _sort(found: _Found, part: EmailMessage, index: int, *, is_container: bool) -> None:
    """File one part as the text, the HTML, or a file."""
    kind = _type_of(part)
    disposition = _disposition(part)
    name = _filename(part)
    is_body = disposition != "attachment" and name is None and not is_container
    if kind.startswith("multipart/") and not is_container:
        found.is_degraded = True  # it says that it has parts, and has none
        kind = "text/plain"
    found.has_calendar |= kind == "text/calendar"
    if is_body and kind == "text/plain" and not found.texts:
        found.texts.append(_text(part))
    elif is_body and kind == "text/html" and not found.pages:
        found.pages.append(_text(part))
    else:
        content_id = one_line(storable(str(part.get("content-id", ""))), 998)
        found.files.append(
            ParsedFile(
                index=index,
                filename=name,
                content_type=kind,
                disposition=disposition,
                content_id=content_id.strip("<> ") or None,
                content=_octets(part, found),
            )
        )


def _is_encrypted(root: EmailMessage, found: _Found) -> bool:
    if _type_of(root) in _ENCRYPTED:
        return "signed" not in _parameter(root, "smime-type").lower()
    return bool(found.texts) and found.texts[0].lstrip().startswith(_ARMOUR)


def _text(part: EmailMessage) -> str:
    """Return a text part, whatever its charset says; lines end in LF."""
    octets = _decoded(part)[:BODY_LIMIT]
    charset = _parameter(part, "charset") or "utf-8"
    try:
        if _NOT_FOR_TEXT.fullmatch(charset):
            raise LookupError(charset)
        text = octets.decode(charset, "replace")
    except (LookupError, UnicodeError, ValueError):
        text = octets.decode("utf-8", "replace")
    return storable(text).replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")


def _octets(part: EmailMessage, found: _Found) -> bytes:
    """Return what a file holds; of a nested message or container, all of it."""
    if not isinstance(part.get_payload(), list):
        return _decoded(part)
    is_message = _type_of(part).startswith("message/")
    inside: list[Any] = cast("list[Any]", part.get_payload()) if is_message else [part]
    written = BytesIO()
    try:
        for message in inside:
            BytesGenerator(written, mangle_from_=False, policy=_AS_IS).flatten(message)
    except Exception:  # what was read cannot be written again
        found.is_degraded = True
    return written.getvalue()


def _decoded(part: EmailMessage) -> bytes:
    try:
        payload = part.get_payload(decode=True)
    except Exception:
        payload = str(part.get_payload()).encode("utf-8", "replace")
    return payload if isinstance(payload, bytes) else b""


def _type_of(part: EmailMessage) -> str:
    try:
        found = one_line(part.get_content_type(), 255).lower()
    except Exception:
        return _OPAQUE
    return found if "/" in found else _OPAQUE


def _disposition(part: EmailMessage) -> str | None:
    try:
        found = part.get_content_disposition()
    except Exception:
        return None
    return found if found in ("attachment", "inline") else None


def _filename(part: EmailMessage) -> str | None:
    try:
        name = part.get_filename()
    except Exception:
        return None
    return clean_filename(phrase(str(name), 1000)) if name else None


def _parameter(part: EmailMessage, name: str) -> str:
    """Return a parameter of the content type, or an empty text."""
    try:
        found = part.get_param(name, "")
    except Exception:
        return ""
    return storable(str(found[-1] if isinstance(found, tuple) else found)).strip()
