"""What providers said later: events that were applied, and some without a message."""

from datetime import datetime, timedelta
from typing import Final

from core.addresses import hint
from core.hashing import address_hash
from delivery.events import DeliveryEvent
from delivery.inbox import KEPT_FOR
from delivery.statuses import DeliveryKind, DeliveryStatus, EventSource, InboxState
from pylota.demo_data.draw import Draw
from pylota.demo_data.mail import Letter, Recipient
from pylota.demo_data.rows import Rows
from pylota.demo_data.shapes import DEFERRALS, REFUSALS

SECONDS: Final = {
    DeliveryStatus.DELIVERED: 6.0,
    DeliveryStatus.DEFERRED: 4.0,
    DeliveryStatus.BOUNCED: 20.0,
    DeliveryStatus.COMPLAINED: 14_000.0,
}
"""How long after the call providers say so, about."""

SOFT: Final = 0.25
"""The part of bounces after which the address is written to again."""


class Said:
    """Adds provider events, and the suppressions that follow from them."""

    def __init__(self, draw: Draw, rows: Rows) -> None:
        self._draw, self._rows = draw, rows
        self._suppressed: set[tuple[str, str]] = set()

    def tell(self, letter: Letter) -> None:
        """Let the provider say what became of each recipient, if it says anything."""
        if letter.evidence == "orphan":
            self._orphan(letter)
        for n, one in enumerate(letter.recipients):
            if letter.evidence == "partly" and n:
                one.status = DeliveryStatus.DELIVERED
            if one.status in SECONDS and not letter.is_inbound:
                self._one(letter, one)

    def _one(self, letter: Letter, one: Recipient) -> None:
        draw = self._draw
        at = draw.after(letter.ended_at, SECONDS[one.status])
        one.changed_at = at
        if letter.fate in ("reconciled", "uncertain"):
            one.charged_at = at
        if one.status == DeliveryStatus.DELIVERED:
            one.smtp_code = "250"
        elif one.status == DeliveryStatus.DEFERRED:
            one.smtp_code, one.enhanced_code, one.response = DEFERRALS
        elif one.status == DeliveryStatus.BOUNCED:
            one.smtp_code, one.enhanced_code, one.response = draw.one_of(REFUSALS)
            one.bounce_type = "soft" if draw.chance(SOFT) else "hard"
        if one.bounce_type == "hard":
            one.reason = "hard_bounce"
        elif one.status == DeliveryStatus.COMPLAINED:
            one.reason = "complaint"
        if one.reason in ("hard_bounce", "complaint"):
            self._suppress(letter, one, at)
        event = self._event(letter, one, at, DeliveryKind(one.status))
        one.event_ids.append(event.event_id)
        if draw.now - at < KEPT_FOR:
            self._store(event, at, InboxState.APPLIED, letter.key)

    def _orphan(self, letter: Letter) -> None:
        """Let an event that nearly matches come: without subject, and without tag."""
        at = self._draw.after(letter.ended_at, 60.0)
        event = self._event(
            letter, letter.recipients[0], at, DeliveryKind.DELIVERED, is_blind=True
        )
        self._store(event, at, InboxState.ORPHANED, None)

    def strangers(self, senders_address: str, count: int) -> None:
        """Let events come of mail that was never ours, over the last days."""
        for _ in range(count):
            at = self._draw.before_now(3 * 24 * 60)
            event = DeliveryEvent(
                source=EventSource.SES,
                event_id=f"ses:{self._draw.uuid()}",
                provider_message_id=f"{self._draw.random.getrandbits(128):032x}-000000",
                sender=senders_address,
                recipient="nobody@example.net",
                kind=DeliveryKind.DELIVERED,
                occurred_at=at,
                subject="Sent by another system of the same account",
            )
            self._store(event, at, InboxState.ORPHANED, None)

    def _event(
        self,
        letter: Letter,
        one: Recipient,
        at: datetime,
        kind: DeliveryKind,
        *,
        is_blind: bool = False,
    ) -> DeliveryEvent:
        provider = letter.sender.provider
        source = EventSource.SES if provider == "smtp" else EventSource(provider)
        return DeliveryEvent(
            source=source,
            event_id=f"{source}:{self._draw.uuid()}",
            provider_message_id=letter.provider_id
            or f"{self._draw.random.getrandbits(128):032x}-000000",
            sender=letter.sender.address,
            recipient=one.address,
            kind=kind,
            occurred_at=at,
            subject=None if is_blind else letter.subject,
            hard=one.bounce_type == "hard",
            smtp_code=one.smtp_code,
            enhanced_code=one.enhanced_code,
            smtp_response=one.response,
            tag=None if is_blind else letter.id,
        )

    def _store(
        self, event: DeliveryEvent, at: datetime, state: InboxState, key: int | None
    ) -> None:
        self._rows.add(
            "provider_events",
            {
                "id": self._draw.id("pev", at),
                "source": str(event.source),
                "event_id": event.event_id,
                "payload": event.payload(),
                "occurred_at": at,
                "received_at": min(at + timedelta(seconds=2), self._draw.now),
                "state": str(state),
                "attempts": 1,
                "message_pk": key,
            },
        )

    def _suppress(self, letter: Letter, one: Recipient, at: datetime) -> None:
        tenant_id = letter.sender.tenant_id
        if (tenant_id, one.address) in self._suppressed:
            return
        self._suppressed.add((tenant_id, one.address))
        self._rows.add(
            "suppressions",
            {
                "tenant_id": tenant_id,
                "address_hash": address_hash(one.address),
                "address_hint": hint(one.address),
                "reason": one.reason,
                "source_message_id": letter.id,
                "created_at": at,
            },
        )
