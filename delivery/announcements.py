"""The events that a change of a message or a delivery gives: pure but for the summary.

Their data is public (REST contract, section 5.2).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from delivery.events import DeliveryEvent
from delivery.statuses import DeliveryKind
from mailboxes.models import Message
from mailboxes.services import NewEvent
from mailboxes.statuses import MessageStatus
from mailboxes.summaries import message_summary

FIX_UNCERTAIN: Final = (
    "Check the recipient’s mailbox or wait for a delivery event; "
    "then call resolve with sent or not_sent."
)


def _sent(message: Message, detail: str | None) -> NewEvent:
    return NewEvent(
        "message.sent",
        {
            "message": message_summary(message),
            "provider": message.provider,
            "provider_message_id": message.provider_message_id,
            "sent_via_fallback": "sent_via_fallback" in message.flags,
        },
    )


def _rejected(message: Message, detail: str | None) -> NewEvent:
    return NewEvent(
        "message.rejected",
        {"message_id": message.public_id, "reason": message.reason, "detail": detail},
    )


def _failed(message: Message, detail: str | None) -> NewEvent:
    return NewEvent(
        "message.failed", {"message_id": message.public_id, "reason": message.reason}
    )


def _uncertain(message: Message, detail: str | None) -> NewEvent:
    return NewEvent(
        "message.uncertain",
        {
            "message_id": message.public_id,
            "reason": message.reason,
            "fix": FIX_UNCERTAIN,
        },
    )


def _suppressed(message: Message, detail: str | None) -> NewEvent:
    recipients = sorted(message.deliveries.values_list("address", flat=True))
    return NewEvent(
        "message.suppressed",
        {"message_id": message.public_id, "recipients": recipients},
    )


def _canceled(message: Message, detail: str | None) -> NewEvent:
    return NewEvent("message.canceled", {"message_id": message.public_id})


M = MessageStatus
ON_LEAVING_QUEUED: Final[
    Mapping[MessageStatus, Callable[[Message, str | None], NewEvent]]
] = {
    **dict.fromkeys(
        (M.SUBMITTED, M.DEFERRED, M.DELIVERED, M.BOUNCED, M.COMPLAINED), _sent
    ),
    M.REJECTED: _rejected,
    M.FAILED: _failed,
    M.UNCERTAIN: _uncertain,
    M.SUPPRESSED: _suppressed,
    M.CANCELED: _canceled,
}
ON_ROLL_UP: Final = {M.REJECTED: _rejected, M.FAILED: _failed}
"""Of a message that has left the queue before, only its giving up is announced."""


def of_status(
    message: Message, *, leaves_queue: bool, detail: str | None = None
) -> list[NewEvent]:
    """Return what is announced of a message's new status."""
    table = ON_LEAVING_QUEUED if leaves_queue else ON_ROLL_UP
    announce = table.get(MessageStatus(message.status))
    return [announce(message, detail)] if announce else []


def of_sent(message: Message) -> NewEvent:
    """Return the event that a message has been sent."""
    return _sent(message, None)


def of_reconciled(message: Message) -> NewEvent:
    """Return the event that evidence has settled an uncertain send."""
    return NewEvent(
        "message.reconciled",
        {"message_id": message.public_id, "status": message.status},
    )


def of_delivery(message: Message, event: DeliveryEvent) -> list[NewEvent]:
    """Return what is announced of one recipient, after an applied transition."""
    data: dict[str, Any] = {
        "message_id": message.public_id,
        "recipient": event.recipient,
    }
    match event.kind:
        case DeliveryKind.DELIVERED:
            data |= {"smtp_code": event.smtp_code}
        case DeliveryKind.DEFERRED:
            data |= _words(event)
        case DeliveryKind.BOUNCED:
            kind = "hard" if event.hard else "soft"
            data |= {"bounce_type": kind, **_words(event), "suppressed": event.hard}
        case DeliveryKind.COMPLAINED:
            data |= {"suppressed": True}
        case DeliveryKind.FAILED | DeliveryKind.REJECTED | DeliveryKind.SENT:
            return []  # only the roll-up is announced
    return [NewEvent(f"message.{event.kind}", data)]


def _words(event: DeliveryEvent) -> dict[str, str | None]:
    return {"smtp_code": event.smtp_code, "smtp_response": event.smtp_response}
