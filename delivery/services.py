"""Two transactions that settle what became of a message: an event, and a person."""

from datetime import datetime, timedelta
from typing import Literal

from django.db import transaction

from core import metrics
from core.clock import database_now
from delivery import announcements, inbox, reconcile
from delivery.changes import (
    DeliveryChange,
    announce,
    lock_message,
    message_held,
    move,
    name_provider,
    settle_status,
)
from delivery.errors import NotUncertain
from delivery.events import DeliveryEvent
from delivery.journal import is_journal
from delivery.meanings import bounce_type_of, reason_of, suppression_of
from delivery.message_ids import learn_message_id
from delivery.models import Delivery, OutboundState, ProviderEvent
from delivery.reputation import count_outcome
from delivery.statuses import (
    ACCEPTED,
    RESULT_OF,
    TRANSITIONS,
    DeliveryKind,
    DeliveryStatus,
    InboxState,
)
from mailboxes.models import Message
from mailboxes.selectors import identity_behind
from mailboxes.services import audit, lock_mailbox, raise_alert
from mailboxes.statuses import Evidence, MessageStatus, Severity
from suppressions.services import NewSuppression, suppress

LONGEST_WAIT = timedelta(hours=1)
EVENT_IDS_KEPT = 20
RECONCILED = "reconciled"
"""The flag of a message whose doubt was settled by evidence."""

RESOLVED_NOT_SENT = "resolved_not_sent"


@transaction.atomic(durable=True)
def apply_event(inbox_id: str) -> InboxState | None:
    """Apply one stored provider event, or put it off; safe to call twice.

    Returns what became of it, or None when there is nothing (more) to do. The mailbox
    row is locked before the look-up, and the inbox row is marked in the same
    transaction: a message that just turns uncertain and its event cannot miss each
    other (architecture, section 5).
    """
    if (event := inbox.pending(inbox_id)) is None:
        return None
    if is_journal(event.recipient):
        return inbox.end(inbox_id, event, InboxState.REFUSED)
    # whatever became of the address: events come late
    if (identity_id := identity_behind(event.sender)) is None:
        return inbox.end(inbox_id, event, InboxState.UNROUTABLE)
    lock_mailbox(identity_id)
    if not inbox.is_still_pending(inbox_id):
        return None
    now = database_now()
    match = reconcile.find(identity_id, event)
    message = message_held(match.message_id) if match else None
    if match is None or message is None:
        return inbox.not_found(inbox_id, event, now=now)
    delivery = message.deliveries.filter(address=event.recipient).first()
    if delivery is not None and _is_being_sent(delivery):
        return inbox.put_off(inbox_id, now=now)
    state = _apply(message, delivery, event, match.evidence, now=now)
    return inbox.end(inbox_id, event, state, message)


def _apply(
    message: Message,
    delivery: Delivery | None,
    event: DeliveryEvent,
    evidence: Evidence,
    *,
    now: datetime,
) -> InboxState:
    if event.kind == DeliveryKind.SENT:
        return learn_message_id(message, event)
    if delivery is None or event.event_id in delivery.provider_event_ids:
        return InboxState.DUPLICATE
    _remember(message, delivery, event.event_id)
    if _was_not_sent(message, delivery):
        return _contradict(message, event)
    before = DeliveryStatus(delivery.status)
    after = TRANSITIONS.get((before, event.kind))
    if after is None:  # stale: it changes nothing, and says nothing
        return InboxState.APPLIED
    is_in_doubt = before == DeliveryStatus.UNCERTAIN
    is_reconciled = _adopt(message, event, evidence, is_in_doubt=is_in_doubt)
    moved = move(message, [_change(event, after)], from_={before}, now=now)
    suppressed = suppress(
        _to_suppress(event),
        tenant_id=message.tenant_id,
        source_message_id=message.public_id,
        now=now,
    )
    rolled = settle_status(
        message, charged=moved.charged, now=now, detail=event.smtp_response
    )
    reconciled = [announcements.of_reconciled(message)] if is_reconciled else []
    told = announcements.of_delivery(message, event)
    announce(message, [*reconciled, *rolled, *told, *suppressed], now=now)
    count_outcome(message, delivery, event, now=now)
    return InboxState.APPLIED


def _adopt(
    message: Message, event: DeliveryEvent, evidence: Evidence, *, is_in_doubt: bool
) -> bool:
    """Take what an event knows and we do not: the provider's id, and that it was sent.

    Tells whether it is the first to settle this doubt. Later events, of the other
    recipients, find the message by the provider's id.
    """
    is_unnamed = message.provider_message_id is None
    if event.provider_message_id is not None and (is_in_doubt or is_unnamed):
        reconcile.learn_id(message, event)
        message.provider_message_id = (
            message.provider_message_id or event.provider_message_id
        )
    is_first = is_in_doubt and RECONCILED not in message.flags
    if is_first:
        name_provider(message)
        message.flags = [*message.flags, RECONCILED]
        message.evidence = evidence
        metrics.count(metrics.RECONCILED, str(message.provider))
    if is_unnamed or is_first:
        message.save(
            update_fields=["provider", "provider_message_id", "flags", "evidence"]
        )
    return is_first


def _was_not_sent(message: Message, delivery: Delivery) -> bool:
    """Tell whether a person said so, or took the message out of the queue."""
    return (
        delivery.reason == RESOLVED_NOT_SENT or message.status == MessageStatus.CANCELED
    )


def _contradict(message: Message, event: DeliveryEvent) -> InboxState:
    """Keep a person's answer, and say that the provider disagrees.

    Only a match by tag or by the provider's id gets here: by likeness nothing is found
    but what is in doubt. The inbox row is the evidence.
    """
    if RESULT_OF[event.kind] not in ACCEPTED:
        return InboxState.APPLIED
    raise_alert(
        "event_contradicts_person",
        subject=message.public_id,
        severity=Severity.TICKET,
        details={
            "kind": str(event.kind),
            "provider_message_id": event.provider_message_id,
        },
    )
    return InboxState.REFUSED


def _change(event: DeliveryEvent, status: DeliveryStatus) -> DeliveryChange:
    return DeliveryChange(
        address=event.recipient,
        status=status,
        reason=reason_of(event),
        smtp_code=event.smtp_code,
        enhanced_code=event.enhanced_code,
        smtp_response=event.smtp_response,
        bounce_type=bounce_type_of(event),
    )


def _to_suppress(event: DeliveryEvent) -> list[NewSuppression]:
    reason = suppression_of(event)
    return [] if reason is None else [NewSuppression(event.recipient, reason)]


def _remember(message: Message, delivery: Delivery, event_id: str) -> None:
    kept = [*delivery.provider_event_ids, event_id][-EVENT_IDS_KEPT:]
    message.deliveries.filter(address=delivery.address).update(provider_event_ids=kept)


def _is_being_sent(delivery: Delivery) -> bool:
    """Tell whether a claim is about to send this delivery: its record knows more."""
    claimed = OutboundState.objects.filter(
        message=delivery.message_id, claim_token__isnull=False
    )
    return delivery.status == DeliveryStatus.QUEUED and claimed.exists()


@transaction.atomic(durable=True)
def put_off_failed(inbox_id: str) -> None:
    """Alert that an event cannot be applied, and look at it again, ever more rarely.

    It is no longer counted as rung: so many may be, and events that fail for good would
    in the end keep every other one from being rung.
    """
    row = ProviderEvent.objects.select_for_update(no_key=True).get(id=inbox_id)
    if row.state == InboxState.PENDING:
        wait = min(inbox.look_again_after(row.attempts), LONGEST_WAIT)
        ProviderEvent.objects.filter(id=inbox_id).update(
            due_at=database_now() + wait, rung_at=None, attempts=row.attempts + 1
        )
        raise_alert("provider_event_failed", subject=inbox_id)


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
    reason = None if was_sent else RESOLVED_NOT_SENT
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
