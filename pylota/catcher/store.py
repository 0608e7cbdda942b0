"""Caught mails as files: the mail itself, and beside it the envelope it came in."""

import json
import os
import re
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from itertools import islice
from pathlib import Path
from typing import Final

_NAME: Final = re.compile(r"[0-9]{20}-[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class Envelope:
    """What SMTP said of a mail: the login it came under, sender and recipients."""

    id: str
    received_at: str
    sender: str
    recipients: tuple[str, ...]
    message_id: str
    subject: str
    size: int

    @property
    def received(self) -> datetime:
        """Return when the mail had come in whole, in UTC."""
        return datetime.fromisoformat(self.received_at)


class CaughtMail:
    """The mails in one folder, newest first; safe for several readers and a writer."""

    def __init__(self, folder: Path) -> None:
        """Name the folder; it is made with the first mail."""
        self._folder = folder
        self._turn = threading.Lock()

    def keep(self, sender: str, recipients: list[str], content: bytes) -> Envelope:
        """Store a mail so that it outlives the machine; return its envelope."""
        parsed = _parsed(content)
        envelope = Envelope(
            id=f"{time.time_ns():020d}-{os.urandom(4).hex()}",
            received_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            sender=sender,
            recipients=tuple(recipients),
            message_id=str(parsed["Message-ID"] or "").strip(" <>"),
            subject=str(parsed["Subject"] or ""),
            size=len(content),
        )
        with self._turn:
            self._folder.mkdir(parents=True, exist_ok=True)
            _write(self._folder / f"{envelope.id}.eml", content)
            as_json = json.dumps(asdict(envelope)).encode()
            _write(self._folder / f"{envelope.id}.json", as_json)  # now it is listed
            _sync_folder(self._folder)
        return envelope

    def newest(self, limit: int = 100) -> list[Envelope]:
        """Return the newest mails' envelopes."""
        return [
            envelope
            for name in islice(self._names(), limit)
            if (envelope := self.envelope(name)) is not None
        ]

    def total(self) -> int:
        """Return how many mails were caught."""
        return len(self._names())

    def envelope(self, name: str) -> Envelope | None:
        """Return one mail's envelope; None if there is no such mail."""
        content = self._read(name, "json")
        if content is None:
            return None
        fields = json.loads(content)
        return Envelope(**{**fields, "recipients": tuple(fields["recipients"])})

    def source(self, name: str) -> bytes | None:
        """Return one mail as it came over the wire; None if there is no such mail."""
        return self._read(name, "eml")

    def counts(self) -> Counter[str]:
        """Return how many mails were caught of each Message-ID."""
        envelopes = (self.envelope(name) for name in self._names())
        return Counter(e.message_id for e in envelopes if e is not None)

    def _names(self) -> list[str]:
        try:
            entries = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        names = (entry[:-5] for entry in entries if entry.endswith(".json"))
        return sorted((name for name in names if _NAME.fullmatch(name)), reverse=True)

    def _read(self, name: str, kind: str) -> bytes | None:
        if not _NAME.fullmatch(name):
            return None
        try:
            return (self._folder / f"{name}.{kind}").read_bytes()
        except FileNotFoundError:
            return None


@dataclass(frozen=True, slots=True)
class Parts:
    """A mail as a person reads it; everything in it is data, nothing is trusted."""

    headers: tuple[tuple[str, str], ...]
    text: str
    html: str
    attachments: tuple[tuple[str, str, int], ...]


def parts_of(source: bytes) -> Parts:
    """Return headers, bodies and the attachments' names, types and sizes of a mail."""
    message = _parsed(source)
    attachments = [
        (part.get_filename() or "unnamed", part.get_content_type(), _size(part))
        for part in message.iter_attachments()
    ]
    return Parts(
        headers=tuple((name, str(value)) for name, value in message.items()),
        text=_body(message, "plain"),
        html=_body(message, "html"),
        attachments=tuple(attachments),
    )


def _parsed(source: bytes) -> EmailMessage:
    return message_from_bytes(source, policy=policy.default)


def _body(message: EmailMessage, kind: str) -> str:
    body = message.get_body(preferencelist=(kind,))
    if body is None:
        return ""
    payload = body.get_payload(decode=True)
    content = payload if isinstance(payload, bytes) else b""
    try:
        return content.decode(body.get_content_charset("utf-8"), "replace")
    except LookupError:  # a charset that nobody knows
        return content.decode("utf-8", "replace")


def _size(part: EmailMessage) -> int:
    payload = part.get_payload(decode=True)
    return len(payload) if isinstance(payload, bytes) else 0


def _write(path: Path, content: bytes) -> None:
    partial = path.with_suffix(path.suffix + ".new")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def folder_of(data_dir: Path) -> Path:
    """Return where the catcher of a data folder keeps what it has."""
    return data_dir / "catcher"


def caught(data_dir: Path) -> CaughtMail:
    """Return the mails that the catcher of this data folder has caught."""
    return CaughtMail(folder_of(data_dir) / "mail")
