"""The events that clients were told, in order and with their places in the feed."""

import heapq
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from core.database import fetch_one
from delivery.announcements import FIX_UNCERTAIN
from delivery.statuses import DeliveryStatus, RecipientField
from mailboxes.services import API_VERSION, render_instant
from mailboxes.statuses import Direction, MessageKind
from pylota.demo_data.draw import Draw
from pylota.demo_data.mail import Letter
from pylota.demo_data.rows import Row, Rows
from pylota.demo_data.senders import Sender
from pylota.demo_data.shapes import ACCEPTED_AT_ONCE

Told = tuple[str, dict[str, Any], datetime]
"""A type, its data and its instant."""

RECENT: Final = 3000
"""The latest events, which endpoints may still be told of."""


class Feed:
    """Numbers events in order of time: whatever is told later waits for its turn."""

    def __init__(self, draw: Draw, rows: Rows) -> None:
        self._draw, self._rows = draw, rows
        self._waiting: list[tuple[datetime, int, Sender, str, dict[str, Any]]] = []
        self._drawn = 0
        self._position = _last_position()
        self.recent: deque[Row] = deque(maxlen=RECENT)

    def tell(self, letter: Letter) -> None:
        """Let clients be told what became of a letter, in good time."""
        for kind, data, at in _events(letter):
            self._drawn += 1
            one = (at, self._drawn, letter.sender, kind, data)
            heapq.heappush(self._waiting, one)

    def number(self, *, before: datetime | None = None) -> None:
        """Add the rows of all events before an instant, or of all there are."""
        while self._waiting and (before is None or self._waiting[0][0] < before):
            at, _, sender, kind, data = heapq.heappop(self._waiting)
            self._position += 1
            row = self._row(at, sender, kind, data)
            self._rows.add("events", row)
            self.recent.append(row)
            sender.next_event += 1

    def close(self) -> None:
        """Let the next event of the deployment come after these."""
        fetch_one(
            "SELECT setval('events_position_seq', %(last)s)", {"last": self._position}
        )

    def _row(
        self, at: datetime, sender: Sender, kind: str, data: dict[str, Any]
    ) -> dict[str, Any]:
        event_id = self._draw.id("evt", at)
        envelope = {
            "id": event_id,
            "type": kind,
            "api_version": API_VERSION,
            "occurred_at": render_instant(at),
            "tenant_id": sender.tenant_id,
            "identity_id": sender.identity_id,
            "sequence": sender.next_event,
            "data": data,
        }
        return {
            "id": event_id,
            "tenant_id": sender.tenant_id,
            "identity_id": sender.identity_id,
            "owner_kind": "mailbox",
            "owner_id": sender.identity_id,
            "seq": sender.next_event,
            "position": self._position,
            "type": kind,
            "payload": envelope,
            "occurred_at": at,
            "dispatched_at": at,
        }


def _last_position() -> int:
    """Hold the outbox, so that nobody numbers meanwhile, and return its last place."""
    fetch_one("SELECT pg_advisory_xact_lock(hashtext('outbox'), 0)")
    row = fetch_one(
        "SELECT greatest((SELECT last_value FROM events_position_seq),"
        " (SELECT coalesce(max(position), 0) FROM events))"
    )
    assert row is not None  # noqa: S101  a SELECT without FROM has one row
    return int(row[0])


def _events(letter: Letter) -> Iterator[Told]:
    """Return what is told of a letter, as the product tells it."""
    named = {"message_id": letter.id}
    why = {**named, "reason": letter.reason}
    at = letter.ended_at
    match letter.fate:
        case "received":
            yield "message.received", _received(letter), letter.at
        case "canceled":
            yield "message.canceled", named, letter.recipients[0].changed_at
        case "suppressed":
            addresses = sorted(one.address for one in letter.recipients)
            yield "message.suppressed", {**named, "recipients": addresses}, letter.at
        case "rejected":
            detail = letter.recipients[0].response
            yield "message.rejected", {**why, "detail": detail}, at
        case "failed":
            yield "message.failed", why, at
        case "uncertain":
            yield "message.uncertain", {**why, "fix": FIX_UNCERTAIN}, at
        case "reconciled" | "resolved":
            doubt = {**named, "reason": "transport_timeout", "fix": FIX_UNCERTAIN}
            yield "message.uncertain", doubt, at
    if letter.fate in ACCEPTED_AT_ONCE or letter.fate == "resolved":
        changed = letter.recipients[0].changed_at
        yield "message.sent", _sent(letter), changed if letter.settled_by else at
    yield from _of_recipients(letter)
    if letter.fate == "reconciled":
        changed = letter.recipients[0].changed_at
        yield "message.reconciled", {**named, "status": str(letter.status)}, changed


def _of_recipients(letter: Letter) -> Iterator[Told]:
    for one in letter.recipients:
        data: dict[str, Any] = {"message_id": letter.id, "recipient": one.address}
        words = {"smtp_code": one.smtp_code, "smtp_response": one.response}
        if not one.event_ids:
            continue
        match one.status:
            case DeliveryStatus.DELIVERED:
                data |= {"smtp_code": one.smtp_code}
            case DeliveryStatus.DEFERRED:
                data |= words
            case DeliveryStatus.BOUNCED:
                is_hard = one.bounce_type == "hard"
                data |= {"bounce_type": one.bounce_type, **words, "suppressed": is_hard}
            case DeliveryStatus.COMPLAINED:
                data |= {"suppressed": True}
        yield f"message.{one.status}", data, one.changed_at


def _sent(letter: Letter) -> dict[str, Any]:
    return {
        "message": _summary(letter),
        "provider": str(letter.sender.provider),
        "provider_message_id": letter.provider_id,
        "sent_via_fallback": False,
    }


def _received(letter: Letter) -> dict[str, Any]:
    return {
        "message": _summary(letter),
        "thread_id": letter.thread.id,
        "trust": {"known_sender": True, "automated": False, "flags": []},
        "extracted_text": "Thank you!",
        "extracted_text_truncated": False,
        "attachments": [],
    }


def _summary(letter: Letter) -> dict[str, Any]:
    """Return a message as events show it (REST contract, section 5.2)."""
    sender, is_inbound = letter.sender, letter.is_inbound
    own = {"address": sender.address, "name": sender.name}
    to = letter.people(RecipientField.TO)
    return {
        "id": letter.id,
        "thread_id": letter.thread.id,
        "direction": str(Direction.INBOUND if is_inbound else Direction.OUTBOUND),
        "status": "received" if is_inbound else "submitted",
        "from": to[0] if is_inbound else own,
        "to": [own] if is_inbound else to,
        "cc": [] if is_inbound else letter.people(RecipientField.CC),
        "delivered_to": sender.address if is_inbound else None,
        "is_primary_recipient": True,
        "subject": letter.subject,
        "sent_at": render_instant(letter.at),
        "received_at": render_instant(letter.at),
        "kind": str(MessageKind.NORMAL if is_inbound else MessageKind.TRANSACTIONAL),
        "labels": [],
        "in_reply_to": None,
        "flags": list(letter.flags),
    }
