"""A send as its sent copy tells it: what the database has lost becomes a plan again.

Read-only and without a clock; what the copy does not say (labels, metadata, consent) is
not made up.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from core.ids import is_id
from core.sealing import Place, SealBroken, sealer
from delivery.statuses import RecipientField
from inbound.parse import ParsedFile, ParsedMail, parse
from mailboxes.recipients import Party
from mailboxes.statuses import MessageKind, Operation
from outbound.body import Bodies
from outbound.compose import Attachment, ComposedMessage
from outbound.ledger import Slot
from outbound.plan import PlannedFile, PlannedRecipient, PlannedThread, SendPlan
from quota.caps import Caps

OPAQUE: Final = "application/octet-stream"


class CopyUnreadable(Exception):
    """A sent copy whose metadata do not say what a ledger row needs."""


@dataclass(frozen=True, slots=True)
class CopyName:
    """Whose message an object is; ``attachment_id`` is None for the mail itself."""

    key: str
    tenant_id: str
    identity_id: str
    message_id: str
    attachment_id: str | None = None

    @classmethod
    def of(cls, key: str) -> "CopyName | None":
        """Read a key; None for what is no part of a sent message."""
        match key.split("/"):
            case ["t", tenant, "i", identity, "out", file] if file.endswith(".eml"):
                found = cls(key, tenant, identity, file.removesuffix(".eml"))
            case ["t", tenant, "i", identity, "out", message, "a", attachment]:
                found = cls(key, tenant, identity, message, attachment)
            case _:
                return None
        return found if is_id(found.message_id, "msg") else None


@dataclass(frozen=True, slots=True)
class LostSend:
    """A sent copy, read: its place in the ledger, and where its message belongs."""

    name: CopyName
    slot: Slot
    kind: MessageKind
    bcc: tuple[Party, ...]
    thread_id: str | None
    thread_seq: int | None
    mail: ParsedMail
    mime: bytes


def read_lost(name: CopyName, mime: bytes, metadata: Mapping[str, str]) -> LostSend:
    """Put the mail and its metadata together. Raises CopyUnreadable."""
    try:
        return LostSend(
            name=name,
            slot=slot_of(name, metadata),
            kind=MessageKind(metadata.get("kind", MessageKind.TRANSACTIONAL)),
            bcc=_opened(metadata["bcc"], name.key),
            thread_id=metadata.get("thread"),
            thread_seq=int(metadata.get("thread_seq") or 0) or None,
            mail=parse(mime),
            mime=mime,
        )
    except (KeyError, ValueError, TypeError, SealBroken) as error:
        raise CopyUnreadable(f"{name.key} ({type(error).__name__})") from error


def slot_of(name: CopyName, metadata: Mapping[str, str]) -> Slot:
    """Return the place in the ledger that a copy names. Raises CopyUnreadable."""
    try:
        return Slot(
            identity_id=name.identity_id,
            key_hash=metadata["idem_key_sha256"],
            fingerprint=metadata["fingerprint"],
            operation=Operation(metadata["operation"]),
        )
    except (KeyError, ValueError) as error:
        raise CopyUnreadable(f"{name.key} ({type(error).__name__})") from error


def rebuilt_plan(
    lost: LostSend,
    thread: PlannedThread,
    files: tuple[PlannedFile, ...],
    *,
    accepted_at: datetime,
) -> SendPlan:
    """Return the plan that the send was accepted by, as far as its copy tells."""
    mail = lost.mail
    sender = mail.sender or Party("")
    return SendPlan(
        operation=lost.slot.operation,
        tenant_id=lost.name.tenant_id,
        identity_id=lost.name.identity_id,
        message_id=lost.name.message_id,
        thread=thread,
        from_address=sender.address,
        from_name=sender.name or "",
        reply_to=mail.reply_to[0] if mail.reply_to else None,
        recipients=tuple(_recipients(lost)),
        subject=mail.subject,
        bodies=Bodies(mail.text or "", mail.html),
        in_reply_to=mail.in_reply_to[0] if mail.in_reply_to else None,
        references=mail.references,
        headers=(),
        files=files,
        labels=(),
        metadata={},
        kind=lost.kind,
        consent=None,
        caps=Caps(lost.name.identity_id, 0, None),  # what was accepted is not judged
        most_exchanges=0,
        now=accepted_at,
    )


def rebuilt_message(lost: LostSend) -> ComposedMessage:
    """Return the bytes as they were composed, with their Message-ID."""
    return ComposedMessage(lost.mail.message_id or "", lost.mime)


def rebuilt_files(
    lost: LostSend, contents: Mapping[str, bytes]
) -> tuple[PlannedFile, ...]:
    """Return the files whose bytes are there, by id; the mail tells their names.

    One that left the mail for a link has no part in it, and so no name any more.
    """
    parts = list(lost.mail.files)
    return tuple(
        PlannedFile(id_, _file(_taken(parts, content), content))
        for id_, content in contents.items()
    )


def _taken(parts: list[ParsedFile], content: bytes) -> ParsedFile | None:
    found = next((part for part in parts if part.content == content), None)
    if found is not None:
        parts.remove(found)
    return found


def _file(part: ParsedFile | None, content: bytes) -> Attachment:
    if part is None:
        return Attachment(None, OPAQUE, "attachment", None, content)
    shown: Literal["inline", "attachment"] = (
        "inline" if part.disposition == "inline" else "attachment"
    )
    return Attachment(part.filename, part.content_type, shown, part.content_id, content)


def _opened(sealed: str, key: str) -> tuple[Party, ...]:
    people: list[dict[str, Any]] = json.loads(
        sealer().open(sealed, place=Place("objects", "bcc", key))
    )
    return tuple(Party(who["address"], who["name"]) for who in people)


def _recipients(lost: LostSend) -> Iterator[PlannedRecipient]:
    fields = (
        (RecipientField.TO, lost.mail.to),
        (RecipientField.CC, lost.mail.cc),
        (RecipientField.BCC, lost.bcc),
    )
    named: set[str] = set()
    for field, parties in fields:
        for party in parties:
            if party.address not in named:
                named.add(party.address)
                yield PlannedRecipient(party.address, party.name, field)
