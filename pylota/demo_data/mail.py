"""A message, its thread, its recipients and its place in the ledger."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final

from core.addresses import domain_of
from core.ids import ulid_of
from delivery.statuses import ACCEPTED, AttemptPhase, DeliveryStatus, RecipientField
from mailboxes.statuses import Direction, MessageKind, MessageStatus, Operation
from outbound.serializers import MessageFacts, render_message
from pylota.demo_data.draw import Draw
from pylota.demo_data.plan import Planned
from pylota.demo_data.rows import Rows
from pylota.demo_data.senders import Sender, Thread
from pylota.demo_data.shapes import (
    DOUBTED,
    EVIDENCE,
    FATES,
    HTML_SHARE,
    LONGEST_SUBJECT,
    NEVER_CALLED,
    PHASES,
    SUBJECTS,
    TEXT,
)

LEDGER_DAYS: Final = 30
ANSWERED: Final = 0.35
"""The part of messages that go on with a thread."""

OPEN_THREADS: Final = 20
SNIPPET: Final = 240
TOLD_WHY: Final = frozenset({"rejected", "failed"})
"""Fates whose reason the message shows as well."""


@dataclass(slots=True)
class Recipient:
    """One recipient, and what became of it."""

    address: str
    name: str
    field: RecipientField
    status: DeliveryStatus
    changed_at: datetime
    reason: str | None = None
    smtp_code: str | None = None
    enhanced_code: str | None = None
    response: str | None = None
    bounce_type: str | None = None
    charged_at: datetime | None = None
    event_ids: list[str] = dataclasses.field(default_factory=list)


@dataclass(slots=True)
class Letter:
    """A message while its story is told; the other files read it, and add to it."""

    key: int
    id: str
    fate: str
    at: datetime
    sender: Sender
    thread: Thread
    subject: str
    recipients: list[Recipient]
    status: MessageStatus
    reason: str | None
    html: str | None
    left_at: datetime
    ended_at: datetime
    phase: AttemptPhase
    evidence: str
    provider_id: str | None = None
    flags: tuple[str, ...] = ()
    settled_by: str | None = None

    @property
    def is_inbound(self) -> bool:
        """Tell whether it came in."""
        return self.fate == "received"

    @property
    def was_called(self) -> bool:
        """Tell whether a transport was ever asked to take it."""
        return self.fate not in NEVER_CALLED

    @property
    def cap_day(self) -> date | None:
        """Return the day, in its tenant's zone, on which it counts."""
        return None if self.is_inbound else self.at.astimezone(self.sender.zone).date()

    def people(self, name: RecipientField) -> list[dict[str, Any]]:
        """Return the recipients of one field as named addresses."""
        return [
            {"address": one.address, "name": one.name or None}
            for one in self.recipients
            if one.field == name
        ]


class Writer:
    """Writes letters down: one after the other, oldest first."""

    def __init__(
        self, draw: Draw, rows: Rows, *, pages: Sequence[str], threads: list[int]
    ) -> None:
        """Take fresh keys for threads, and HTML as it may be stored."""
        self._draw, self._rows, self._pages = draw, rows, pages
        self._threads = iter(threads)
        self._written = 0

    def begin(self, planned: Planned, key: int) -> Letter:
        """Return the letter of a plan, with its recipients and its times."""
        draw, fate = self._draw, FATES[planned.fate]
        self._written += 1
        message_id = draw.id("msg", planned.at)
        subject = self._subject()
        left = draw.after(planned.at, 0.45)
        letter = Letter(
            key=key,
            id=message_id,
            fate=planned.fate,
            at=planned.at,
            sender=planned.sender,
            thread=self._thread(planned, subject),
            subject=subject,
            recipients=[],
            status=fate.status,
            reason=fate.reason if planned.fate in TOLD_WHY else None,
            html=draw.one_of(self._pages) if draw.chance(HTML_SHARE) else None,
            left_at=left,
            ended_at=draw.after(left, 0.6),
            phase=AttemptPhase.ANSWERED,
            evidence="none",
        )
        if planned.fate in DOUBTED:
            self._doubt(letter)
        letter.recipients = self._recipients(letter)
        return letter

    def _doubt(self, letter: Letter) -> None:
        """Let the call end without an answer: after 30 s, or with its worker."""
        draw = self._draw
        letter.phase = draw.weighted(PHASES)
        is_lost = letter.phase == AttemptPhase.WORKER_LOST
        letter.ended_at = draw.after(letter.left_at, 305 if is_lost else 30, spread=0.1)
        if letter.fate == "uncertain":
            letter.evidence = draw.weighted(EVIDENCE)
            cause = "connection_lost" if is_lost else "timeout"
            letter.reason = f"transport_{cause}"
        elif letter.fate == "reconciled":
            letter.flags, letter.settled_by = ("reconciled",), "tag"
        else:
            letter.settled_by = "person"

    def _subject(self) -> str:
        if self._written % 500 == 7:
            return LONGEST_SUBJECT
        number = self._draw.random.randrange(10_000, 100_000)
        return self._draw.one_of(SUBJECTS).format(n=number)

    def _recipients(self, letter: Letter) -> list[Recipient]:
        draw, circle = self._draw, letter.sender.circle
        partly = letter.evidence == "partly"
        many = (3 if partly else 1) + (
            draw.random.randrange(4) if draw.chance(0.2) else 0
        )
        if letter.fate == "received":
            many = 1
        people = draw.random.sample(circle, min(many, len(circle)))
        if self._written % 500 == 7:
            people[0] = circle[-1]
        fields = (RecipientField.TO, RecipientField.CC, RecipientField.BCC)
        return [
            Recipient(
                address=address,
                name=name,
                field=fields[min(n, 2)] if n < 4 else RecipientField.TO,
                status=FATES[letter.fate].delivery,
                changed_at=letter.ended_at,
                reason=None if letter.fate in DOUBTED else FATES[letter.fate].reason,
            )
            for n, (address, name) in enumerate(people)
        ]

    def _thread(self, planned: Planned, subject: str) -> Thread:
        """Return the thread that the message goes on with, or begins."""
        draw, sender = self._draw, planned.sender
        if sender.threads and draw.chance(ANSWERED):
            return draw.one_of(sender.threads[-OPEN_THREADS:])
        thread = Thread(
            pk=next(self._threads),
            id=draw.id("thr", planned.at),
            seq=len(sender.threads) + 1,
            subject=subject,
            first_at=planned.at,
            last_at=planned.at,
            people=[],
        )
        sender.threads.append(thread)
        return thread

    def end(self, letter: Letter) -> None:
        """Add the rows of a letter whose story is known."""
        self._count(letter)
        self._rows.add("messages", message_row(letter, self._draw))
        if letter.is_inbound:
            return
        for one in letter.recipients:
            self._rows.add("deliveries", delivery_row(letter, one))
        self._rows.add("idempotency", self._ledger_row(letter))

    def _count(self, letter: Letter) -> None:
        thread, at = letter.thread, letter.at
        thread.count += 1
        thread.last_at = at
        thread.people = letter.people(RecipientField.TO)[:1]
        if letter.is_inbound:
            thread.unread += 1
            thread.last_inbound_at = at
        else:
            thread.last_outbound_at = at
        if letter.fate == "suppressed":
            return
        for one in letter.recipients:
            known = letter.sender.contacts.setdefault(
                one.address, [one.name or None, at, at, 0, 0, thread.pk]
            )
            known[2], known[5] = at, thread.pk
            known[3 if letter.is_inbound else 4] += 1

    def _ledger_row(self, letter: Letter) -> dict[str, Any]:
        return {
            "identity_id": letter.sender.identity_id,
            "key_hash": self._draw.digest(),
            "tenant_id": letter.sender.tenant_id,
            "fingerprint": self._draw.digest(),
            "operation": str(Operation.SEND),
            "message_id": letter.id,
            "response": answer(letter),
            "created_at": letter.at,
            "expires_at": letter.at + timedelta(days=LEDGER_DAYS),
        }


def message_row(letter: Letter, draw: Draw) -> dict[str, Any]:
    """Return the row of a message."""
    sender, is_inbound = letter.sender, letter.is_inbound
    text = TEXT.format(name="you", n=letter.key, sender=sender.name)
    peer = letter.recipients[0]
    address, name = (
        (peer.address, peer.name) if is_inbound else (sender.address, sender.name)
    )
    to = [{"address": sender.address, "name": sender.name}]
    is_known = letter.was_called and letter.fate not in ("queued", "uncertain")
    return {
        "pk": letter.key,
        "id": letter.id,
        "tenant_id": sender.tenant_id,
        "identity_id": sender.identity_id,
        "thread_pk": letter.thread.pk,
        "direction": str(Direction.INBOUND if is_inbound else Direction.OUTBOUND),
        "status": str(letter.status),
        "reason": letter.reason,
        "rfc_message_id": rfc_id(letter),
        "provider": str(sender.provider) if is_known else None,
        "provider_message_id": letter.provider_id,
        "ref_ids": (),
        "raw_sha256": draw.digest() if is_inbound else None,
        "raw_size": len(text) + 900,
        "from_address": address,
        "from_name": name,
        "sender_domain": domain_of(address) if is_inbound else sender.organisation,
        "to_addrs": to if is_inbound else letter.people(RecipientField.TO),
        "cc_addrs": [] if is_inbound else letter.people(RecipientField.CC),
        "bcc_addrs": [] if is_inbound else letter.people(RecipientField.BCC),
        "delivered_to": sender.address if is_inbound else None,
        "subject": letter.subject,
        "text": text,
        "html_sanitized": letter.html,
        "extracted_text": text,
        "snippet": " ".join(text.split())[:SNIPPET],
        "sent_at": letter.at,
        "received_at": letter.at,
        "kind": str(MessageKind.NORMAL if is_inbound else MessageKind.TRANSACTIONAL),
        "known_sender": True if is_inbound else None,
        "flags": letter.flags,
        "operation": None if is_inbound else str(Operation.SEND),
        "cap_day": letter.cap_day,
        "evidence": letter.settled_by,
        "created_at": letter.at,
        "updated_at": max(one.changed_at for one in letter.recipients),
    }


def delivery_row(letter: Letter, one: Recipient) -> dict[str, Any]:
    """Return the row of one recipient; what a transport has taken is charged."""
    is_charged = one.status in ACCEPTED
    return {
        "message_pk": letter.key,
        "tenant_id": letter.sender.tenant_id,
        "address": one.address,
        "field": str(one.field),
        "status": str(one.status),
        "reason": one.reason,
        "smtp_code": one.smtp_code,
        "enhanced_code": one.enhanced_code,
        "smtp_response": one.response,
        "bounce_type": one.bounce_type,
        "charged_at": one.charged_at or letter.ended_at if is_charged else None,
        "provider_event_ids": one.event_ids,
        "updated_at": one.changed_at,
    }


def rfc_id(letter: Letter) -> str:
    """Return the Message-ID that a letter was composed with."""
    return f"{ulid_of(letter.id)}@{letter.sender.domain}"


def answer(letter: Letter) -> dict[str, Any]:
    """Return what the caller was told when the message was accepted."""
    return render_message(
        MessageFacts(
            id=letter.id,
            thread_id=letter.thread.id,
            identity_id=letter.sender.identity_id,
            direction=Direction.OUTBOUND,
            status="suppressed" if letter.fate == "suppressed" else "queued",
            reason=None,
            from_={"address": letter.sender.address, "name": letter.sender.name},
            to=letter.people(RecipientField.TO),
            cc=letter.people(RecipientField.CC),
            bcc=letter.people(RecipientField.BCC),
            reply_to=[],
            delivered_to=None,
            is_primary_recipient=None,
            subject=letter.subject,
            sent_at=letter.at,
            received_at=letter.at,
            extracted_text=None,
            attachments=[],
            labels=[],
            metadata={},
            kind=MessageKind.TRANSACTIONAL,
            trust=None,
            rfc_message_id=rfc_id(letter),
            in_reply_to=None,
            provider_message_id=None,
            deliveries=None,
            evidence=None,
            flags=[],
        )
    )
