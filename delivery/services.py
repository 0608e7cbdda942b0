"""Two transactions that settle what became of a message: an event, and a person."""

from datetime import datetime, timedelta
from typing import Literal

from django.db import transaction

from core.clock import database_now
from delivery import announcements, reconcile
from delivery.changes import (
    DeliveryChange,
    announce,
    lock_message,
    move,
    name_provider,
    settle_status,
)
from delivery.errors import NotUncertain
from delivery.events import DeliveryEvent
from delivery.models import Delivery, OutboundState, ProviderEvent
from delivery.reputation import count_outcome
from delivery.statuses import TRANSITIONS, DeliveryKind, DeliveryStatus, InboxState
from mailboxes.models import Message
from mailboxes.selectors import identity_behind
from mailboxes.services import audit, lock_mailbox, raise_alert
from mailboxes.statuses import Evidence, MessageStatus
from suppressions.services import NewSuppression, suppress
from suppressions.statuses import SuppressionReason

LATE_AFTER = timedelta(seconds=330)
"""An event that matches no message is orphaned once it is this old."""

LOOK_AGAIN_AFTER = timedelta(seconds=30)
LONGEST_WAIT = timedelta(hours=1)
EVENT_IDS_KEPT = 20


@transaction.atomic(durable=True)
def apply_event(inbox_id: str) -> InboxState | None:
    """Apply one stored provider event, or put it off; safe to call twice.

    Returns what became of it, or None when there is nothing (more) to do. The mailbox
    row is locked before the look-up, and the inbox row is marked in the same
    transaction: a message that just turns uncertain and its event cannot miss each
    other (architecture, section 5).
    """
    stored = ProviderEvent.objects.filter(id=inbox_id).first()
    if stored is None or stored.state != InboxState.PENDING:
        return None
    event = DeliveryEvent.stored(
        stored.source, stored.event_id, stored.occurred_at, stored.payload
    )
    if (identity_id := identity_behind(event.sender)) is None:
        return _mark(inbox_id, InboxState.UNROUTABLE)
    lock_mailbox(identity_id)
    pending = ProviderEvent.objects.select_for_update(no_key=True).filter(
        id=inbox_id, state=InboxState.PENDING
    )
    if not pending.exists():
        return None
    now = database_now()
    match = reconcile.find(identity_id, event)
    message = lock_message(match.message_id) if match else None
    if match is None or message is None:
        return _not_found(inbox_id, event, now=now)
    if _is_being_sent(message, event):
        return _put_off(inbox_id, now=now)
    return _mark(
        inbox_id, _apply(message, event, evidence=match.evidence, now=now), message
    )


def _apply(
    message: Message, event: DeliveryEvent, *, evidence: Evidence | None, now: datetime
) -> InboxState:
    delivery = message.deliveries.filter(address=event.recipient).first()
    if delivery is None or event.event_id in delivery.provider_event_ids:
        return InboxState.DUPLICATE
    before = DeliveryStatus(delivery.status)
    after = TRANSITIONS.get((before, event.kind))
    _remember(message, delivery, event.event_id)
    if after is None:  # stale: it changes nothing, and says nothing
        return InboxState.APPLIED
    if evidence is not None:
        _adopt(message, event, evidence)
    moved = move(message, [_change(event, after)], from_={before}, now=now)
    suppressed = suppress(
        _to_suppress(event),
        tenant_id=message.tenant_id,
        source_message_id=message.public_id,
        now=now,
    )
    rolled = settle_status(
        message,
        charged=moved.charged,
        now=now,
        reason="provider_validation" if event.kind == DeliveryKind.REJECTED else None,
        detail=event.smtp_response,
    )
    reconciled = [announcements.of_reconciled(message)] if evidence else []
    told = announcements.of_delivery(message, event)
    announce(message, [*reconciled, *told, *rolled, *suppressed], now=now)
    count_outcome(message, delivery, event, now=now)
    return InboxState.APPLIED


def _adopt(message: Message, event: DeliveryEvent, evidence: Evidence) -> None:
    """Take the provider's id for a send that nobody knew the end of."""
    name_provider(message)
    message.provider_message_id = event.provider_message_id
    message.flags = [*dict.fromkeys([*message.flags, "reconciled"])]
    message.evidence = evidence
    message.save(update_fields=["provider", "provider_message_id", "flags", "evidence"])


def _change(event: DeliveryEvent, status: DeliveryStatus) -> DeliveryChange:
    is_bounce = event.kind == DeliveryKind.BOUNCED
    return DeliveryChange(
        address=event.recipient,
        status=status,
        reason="hard_bounce" if is_bounce and event.hard else None,
        smtp_code=event.smtp_code,
        enhanced_code=event.enhanced_code,
        smtp_response=event.smtp_response,
        bounce_type=("hard" if event.hard else "soft") if is_bounce else None,
    )


def _to_suppress(event: DeliveryEvent) -> list[NewSuppression]:
    match event.kind, event.hard:
        case DeliveryKind.BOUNCED, True:
            reason = SuppressionReason.HARD_BOUNCE
        case DeliveryKind.COMPLAINED, _:
            reason = SuppressionReason.COMPLAINT
        case _:
            return []
    return [NewSuppression(event.recipient, reason)]


def _remember(message: Message, delivery: Delivery, event_id: str) -> None:
    kept = [*delivery.provider_event_ids, event_id][-EVENT_IDS_KEPT:]
    message.deliveries.filter(address=delivery.address).update(provider_event_ids=kept)


def _is_being_sent(message: Message, event: DeliveryEvent) -> bool:
    """Tell whether a claim is about to send this delivery: its record knows more."""
    queued = message.deliveries.filter(
        address=event.recipient, status=DeliveryStatus.QUEUED
    )
    claimed = OutboundState.objects.filter(message=message, claim_token__isnull=False)
    return queued.exists() and claimed.exists()


def _not_found(inbox_id: str, event: DeliveryEvent, *, now: datetime) -> InboxState:
    if now - event.occurred_at < LATE_AFTER:
        return _put_off(inbox_id, now=now)
    return _mark(inbox_id, InboxState.ORPHANED)


def _put_off(inbox_id: str, *, now: datetime) -> InboxState:
    row = ProviderEvent.objects.get(id=inbox_id)
    row.due_at = now + LOOK_AGAIN_AFTER
    row.attempts += 1
    row.rung_at = None
    row.save(update_fields=["due_at", "rung_at", "attempts"])
    return InboxState.PENDING


@transaction.atomic(durable=True)
def put_off_failed(inbox_id: str) -> None:
    """Alert that an event cannot be applied, and look at it again, ever more rarely.

    It is no longer counted as rung: so many may be, and events that fail for good would
    in the end keep every other one from being rung.
    """
    row = ProviderEvent.objects.select_for_update(no_key=True).get(id=inbox_id)
    if row.state == InboxState.PENDING:
        wait = min(LOOK_AGAIN_AFTER * 2 ** min(row.attempts, 10), LONGEST_WAIT)
        ProviderEvent.objects.filter(id=inbox_id).update(
            due_at=database_now() + wait, rung_at=None, attempts=row.attempts + 1
        )
        raise_alert("provider_event_failed", subject=inbox_id)


def _mark(
    inbox_id: str, state: InboxState, message: Message | None = None
) -> InboxState:
    ProviderEvent.objects.filter(id=inbox_id, state=InboxState.PENDING).update(
        state=state, due_at=None, rung_at=None, message=message
    )
    return state


@transaction.atomic
def resolve(
    message_id: str,
    *,
    outcome: Literal["sent", "not_sent"],
    note: str | None = None,
    actor_key_id: str | None = None,
    actor_user_id: str | None = None,
    request_id: str | None = None,
) -> Message:
    """Settle a send that nobody but a person can: was it sent, or not?

    Changes uncertain deliveries only, and the message rolls up (outbound tables,
    section 8). Joins the caller's transaction, if there is one. Raises NotUncertain
    when an event, or somebody else, was faster.
    """
    message = lock_message(message_id)
    now = database_now()
    if message is None:
        raise NotUncertain("there is no such uncertain send")
    doubtful = message.deliveries.filter(status=DeliveryStatus.UNCERTAIN)
    addresses = list(doubtful.values_list("address", flat=True))
    if not addresses:
        raise NotUncertain("no recipient of this message is uncertain")
    was_sent = outcome == "sent"
    answer = DeliveryStatus.SUBMITTED if was_sent else DeliveryStatus.FAILED
    reason = None if was_sent else "resolved_not_sent"
    moved = move(
        message,
        [DeliveryChange(address, answer, reason=reason) for address in addresses],
        from_={DeliveryStatus.UNCERTAIN},
        now=now,
    )
    name_provider(message)
    events = settle_status(message, charged=moved.charged, now=now, reason=reason)
    if message.status in {MessageStatus.SUBMITTED, MessageStatus.DEFERRED}:
        events.append(announcements.of_sent(message))
    message.evidence = Evidence.PERSON
    message.save(update_fields=["provider", "evidence"])
    announce(message, events, now=now)
    audit(
        "message.resolve",
        tenant_id=message.tenant_id,
        target_type="message",
        target_id=message.public_id,
        details={"outcome": outcome, "note": note, "deliveries": len(addresses)},
        actor_key_id=actor_key_id,
        actor_user_id=actor_user_id,
        request_id=request_id,
    )
    return message
